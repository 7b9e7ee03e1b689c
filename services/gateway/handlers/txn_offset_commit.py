"""TxnOffsetCommit (28), versions 0-5. The group's coordinator decides, and its answer is relayed unchanged.

v2 leader epoch · v3 flexible, members and generations (KIP-447) · v4 TRANSACTION_ABORTABLE · v5 without AddOffsetsToTxn before it
(KIP-890).

A request that was sent and not answered is not sent again: its offsets could belong to the client's next transaction. Each
partition then has NOT_COORDINATOR, and the client asks again itself.

Differences from Kafka: any broker id accepts it, wherever its group's coordinator is. The log keeps the ids of topics, so offsets
of a topic that was deleted meanwhile do not count for the next one with its name.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages import txn_offset_commit
from services.gateway.data_path.served_api import ServedApi
from services.gateway.groups.split import relayed
from services.gateway.shortcuts import relay_shortcut

SERVED_API: Final = ServedApi(
    APIS[ApiKey.TXN_OFFSET_COMMIT],
    relayed(ApiKey.TXN_OFFSET_COMMIT, txn_offset_commit),
    begin=relay_shortcut.begin_request_after_transactional_id,
)
