"""Copies what other nodes lead: `following.py` knows who follows whom, `link.py` pulls, `applying.py` does what answers ask."""
