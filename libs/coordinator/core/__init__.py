"""The rules of one shard, without I/O: decide, replay, revert, and answer when committed. It imports no other room."""
