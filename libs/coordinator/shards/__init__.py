"""The shell of shards: one driver each, all shards of a process, and their time. It imports `log` and `core`."""
