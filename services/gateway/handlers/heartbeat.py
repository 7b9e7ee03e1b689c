"""Heartbeat (12), versions 0-4. The group's coordinator decides; its answer comes back as it is.

v3 static members (KIP-345) · v4 flexible.

While the group is being loaded it succeeds, as in Kafka: nobody can be late there. It may be asked twice, so it goes to the next
coordinator where the first one is gone.

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group
