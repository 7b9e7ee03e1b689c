"""Metrics and log lines of what happens to groups. It imports `core` and `protocol`."""
