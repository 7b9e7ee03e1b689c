"""ConsumerGroupHeartbeat (68), versions 0-1 (KIP-848). The group's coordinator decides, and its answer is relayed unchanged.

v1 regular expressions, and the client makes its member id.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT], begin=relay_shortcut.begin_request)
