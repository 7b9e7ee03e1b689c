"""OffsetDelete (47), version 0 (KIP-496). The group's coordinator decides; its answer comes back as it is.

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group
