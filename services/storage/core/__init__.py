"""The decisions of a storage node, without I/O. Its rooms have the names of the rooms around it.

It imports `libs`, but no event loop, clock or disk. Above all is `replication`, below all `effects.py` and
`sync_states.py`.
"""
