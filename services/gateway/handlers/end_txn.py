"""EndTxn (26), versions 0-5. The transactional id's coordinator decides, and its answer is relayed unchanged.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE · v5 a new epoch for each transaction (KIP-890).

The answer leaves once the outcome is in the log. Markers are written behind it.

Differences from Kafka: any broker id accepts it, wherever the transactional id's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from services.gateway.data_path.served_api import ServedApi
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(APIS[ApiKey.END_TXN], begin=relay_shortcut.begin_request)
