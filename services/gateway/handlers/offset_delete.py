"""OffsetDelete (47), version 0 (KIP-496). The group's coordinator decides, and its answer is relayed unchanged.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages import offset_delete
from services.gateway.data_path.served_api import ServedApi
from services.gateway.groups.split import relayed
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(
    APIS[ApiKey.OFFSET_DELETE], relayed(ApiKey.OFFSET_DELETE, offset_delete), begin=relay_shortcut.begin_request
)
