"""The rules of a leader: its replica, the ISR, the progress of followers, sessions of pulls.

It imports `core/fetch`, `core/effects.py` and the files of `core/replication`.
"""
