"""The rules of replication: `leadership.py` gives a node its role, `throttle.py` limits the rate of copies.

What a role does is in `leader/` and `follower/`. Neither imports the other; both may import the files here.
"""
