"""Moves replicas between the log directories of this node: `moves.py` knows which and copies, `switching.py` changes over."""
