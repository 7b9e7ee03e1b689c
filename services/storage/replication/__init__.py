"""Replication: `leader/` serves pulls and keeps the ISR, `follower/` fetches and truncates. Neither imports the other."""
