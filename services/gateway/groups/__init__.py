"""Requests about groups: the relay to the coordinator that owns the shard, and the split of requests about several groups. It
imports `data_path` and `peers`."""
