"""OffsetDelete (47), version 0 (KIP-496). The group's coordinator decides, and its answer is relayed unchanged.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from services.gateway.shortcuts import relay_shortcut

begin = relay_shortcut.begin_request
