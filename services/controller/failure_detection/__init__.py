"""Failure detection: heartbeats, probes of silent members, and the eviction of dead ones. It imports `term` and `core`."""
