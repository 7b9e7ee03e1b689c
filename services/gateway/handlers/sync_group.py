"""SyncGroup (14), versions 0-5. The group's coordinator decides, and its answer is relayed unchanged.

v3 static members (KIP-345) · v4 flexible · v5 protocol type and name.

A follower's sync waits for the leader's assignment, as a join waits for members (`join_group.py`).

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from services.gateway.shortcuts import relay_shortcut

begin = relay_shortcut.begin_request
