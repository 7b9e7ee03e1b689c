"""The liveness of members: alive, suspected or dead, as a transition table. Pure."""
