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

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.wire.messages.produce import read_produce
from libs.wire.primitives import Reader
from services.gateway.core.produce_template import ProduceTemplate, learn
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.produce.pending_produce import PendingProduce
from services.gateway.produce.sole_produce import SoleProduce


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request, and learns its template for `begin_from_template` of the requests that follow. Raises ProtocolError."""
    request = read_produce(reader, exchange.api_version)
    reader.expect_end()
    template = learn(reader.view, exchange.api_version, exchange.client_id, request)
    PendingProduce(data_path, exchange, request).start(request)
    exchange.connection.templates.keep_produce(template)
    return True


def begin_from_template(data_path: DataPath, exchange: Exchange, template: ProduceTemplate, frame: memoryview) -> bool:
    """Begins a request that matches the template. False: it does not match, or has an error, and nothing was begun.

    Call `data_path.appends.flush` at the end of the turn.
    """
    match = template.match(frame)
    if match is None:
        return False
    routes = data_path.routes
    topic = routes.topic(template.name) if template.name is not None else routes.topic_by_id(template.topic_id or b"")
    if topic is None or topic.internal or topic.partition(match.partition) is None or topic.name in INTERNAL_TOPICS:
        return False
    exchange.api_version = template.version
    exchange.correlation_id = match.correlation_id
    exchange.client_id = template.client_id
    exchange.connection.produced.note((topic.topic_id, match.partition), match.records, exchange.received_at)
    batch = SoleProduce(data_path, exchange, template, topic, match.partition, match.records)
    exchange.on_hang_up = batch.hang_up
    data_path.appends.stage(batch)
    return True
