"""Heartbeat (12), versions 0-4. The group's coordinator decides, and its answer is relayed unchanged.

v3 static members (KIP-345) · v4 flexible.

While the group is being loaded a heartbeat succeeds, as in Kafka: no session can expire there. It is idempotent, so it goes to
the next coordinator if the first one is gone.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.HEARTBEAT], begin=relay_shortcut.begin_request)
