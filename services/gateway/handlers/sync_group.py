"""SyncGroup (14), versions 0-5. The group's coordinator decides, and its answer is relayed unchanged.

v3 static members (KIP-345) · v4 flexible · v5 protocol type and name.

A follower's sync waits for the leader's assignment, as a join waits for members (`join_group.py`).

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.SYNC_GROUP], begin=relay_shortcut.begin_request)
