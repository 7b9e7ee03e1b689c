"""ConsumerGroupHeartbeat (68), versions 0-1 (KIP-848). The group's coordinator decides; its answer comes back as it is.

v1 regular expressions, and the client makes its member id.

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group
