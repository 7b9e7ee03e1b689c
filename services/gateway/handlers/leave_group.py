"""LeaveGroup (13), versions 0-5. The group's coordinator decides, and its answer is relayed unchanged.

v3 several members, static ones too (KIP-345) · v4 flexible · v5 reason (KIP-800).

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from services.gateway.shortcuts import relay_shortcut

begin = relay_shortcut.begin_request
