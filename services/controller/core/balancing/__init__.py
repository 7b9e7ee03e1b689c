"""The plan of self-balancing, and its views. Pure."""
