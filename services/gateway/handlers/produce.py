"""Produce (0), versions 3-13 (advertised from 0, as Kafka does: KAFKA-18659, older librdkafka disables compression otherwise).

v3 transactional id · v7 zstd · v8 record errors · v9 flexible · v10 current leader, node endpoints · v11 TRANSACTION_ABORTABLE ·
v12 adds partitions to transactions · v13 topic ids.

This is the hot path. It runs in the turn in which the frame was read, without a task per request. Records are views of the
receive buffer from here to the storage node's socket. The leader checks the inside of a batch; here only the request itself is
checked.

The first batch of a transaction waits at its leader until the transaction's coordinator has said that it belongs there (KIP-890).

Differences from Kafka: a partition that is named twice in one request answers INVALID_REQUEST, where Kafka stores one of the two
batches.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.produce import ProduceRequest, read_produce
from libs.wire.primitives import Reader
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.produce.pending_produce import PendingProduce
from services.gateway.shortcuts.produce_shortcut import learn


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request, and learns its shortcut. Raises ProtocolError."""
    request: ProduceRequest
    if exchange.checked is not None:
        request = exchange.checked.request
    else:
        request = read_produce(reader, exchange.api_version)
        reader.expect_end()
    shortcuts = exchange.connection.shortcuts
    if shortcuts.wants(ApiKey.PRODUCE) and not exchange.denied:
        shortcuts.keep(ApiKey.PRODUCE, learn(data_path, exchange, reader.view, request))
    PendingProduce(data_path, exchange, request).start(request)
    return True


SERVED_API: Final = ServedApi(APIS[ApiKey.PRODUCE], begin=begin)
