"""What survives when processes, disks and connections fail: real clusters, real clients, real faults."""
