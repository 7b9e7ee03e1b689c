"""JoinGroup (11), versions 0-9. The group's coordinator decides, and its answer is relayed unchanged.

v1 rebalance timeout · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 static members (KIP-345) · v6 flexible · v7 protocol type · v8 reason
(KIP-800) · v9 skip_assignment.

A join waits for the other members, for no longer than its rebalance timeout. It ends when its client disconnects. It answers
NOT_COORDINATOR when its coordinator is gone, and when this gateway stops, since no other process could answer on this connection.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.JOIN_GROUP], begin=relay_shortcut.begin_request)
