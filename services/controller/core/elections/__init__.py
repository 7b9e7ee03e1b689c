"""The choice of a partition's next leader: ordinary, preferred, controlled-shutdown, last-resort and unclean elections. Pure."""
