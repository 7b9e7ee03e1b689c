"""Compacted topics on a small cluster on virtual time: deleted, made anew, compacted and moved while nodes restart.

It may import `tests.simulation.cluster`, whose processes, faults and clients it shares.
"""
