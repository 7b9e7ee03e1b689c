"""ConsumerGroupHeartbeat (68), versions 0-1 (KIP-848). The group's coordinator decides, and its answer is relayed unchanged.

v1 regular expressions, and the client makes its member id.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from services.gateway.shortcuts import relay_shortcut

begin = relay_shortcut.begin_request
