"""The next state of one partition, and the ISR changes that its leader asks for. Pure."""
