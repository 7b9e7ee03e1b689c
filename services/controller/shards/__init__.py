"""The assignment of internal-topic shards to coordinators. It imports `elections`, `term` and `core`."""
