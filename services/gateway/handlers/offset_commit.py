"""OffsetCommit (8), versions 2-10. The group's coordinator decides, and its answer is relayed unchanged.

v5 no retention time · v6 leader epoch · v7 static members (KIP-345) · v8 flexible · v9 member epochs (KIP-848) · v10 topic ids.

If no owner answers, each partition has the error. NOT_COORDINATOR then means that the commit may or may not have happened.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages import offset_commit
from services.gateway.data_path.served_api import ServedApi
from services.gateway.groups.split import relayed
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(
    APIS[ApiKey.OFFSET_COMMIT], relayed(ApiKey.OFFSET_COMMIT, offset_commit), begin=relay_shortcut.begin_request
)
