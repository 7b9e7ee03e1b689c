"""Self-balancing: plans moves of replicas and leaderships, and carries them out a few at a time. It imports `elections`, `term`
and `core`."""
