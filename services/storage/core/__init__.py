"""What a storage node decides, without a clock, a disk or a socket: it is told facts, and answers what should happen."""
