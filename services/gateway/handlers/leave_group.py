"""LeaveGroup (13), versions 0-5. The group's coordinator decides, and its answer is relayed unchanged.

v3 several members, static ones too (KIP-345) · v4 flexible · v5 reason (KIP-800).

It may wait behind a JoinGroup of its connection. Then it begins even if the client is gone: without it the group would wait for
this member's session to end.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.LEAVE_GROUP], begin=relay_shortcut.begin_request, outlives_its_client=True)
