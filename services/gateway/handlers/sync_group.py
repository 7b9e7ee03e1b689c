"""SyncGroup (14), versions 0-5. The group's coordinator decides; its answer comes back as it is.

v3 static members (KIP-345) · v4 flexible · v5 protocol type and name.

A follower's waits for the leader's assignment, as a join waits for members (join_group.py).

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group
