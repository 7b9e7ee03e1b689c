"""Mutated sequences of requests against a live cluster of one process, beside a client that behaves well.

`mutations.py` makes them, `attacked_cluster.py` has the cluster and its calm client, and `sequences.py` sends and judges.
`make fuzz TARGET=gateway` runs fresh seeds. `test_live_gateway.py` runs the same ones each time.
"""
