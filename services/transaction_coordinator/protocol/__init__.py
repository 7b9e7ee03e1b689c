"""Requests of clients and of storage nodes, as events for the shards, and the answers. It imports `core`."""
