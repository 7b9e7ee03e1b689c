"""LeaveGroup (13), versions 0-5. The group's coordinator decides; its answer comes back as it is.

v3 several members, static ones too (KIP-345) · v4 flexible · v5 reason (KIP-800).

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group
