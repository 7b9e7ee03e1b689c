"""Client quotas on virtual time: real gateways, quota managers with a standby, and clients that want more than they may.

A component simulation: storage nodes are stand-ins, and there is no controller. `run.py` has the order of a run, and `promise.py`
judges what was admitted. Each eighth seed has controllers, and clients that make topics (`mutations.py`).
"""
