"""The response to a Produce, or its close with acks=0, where no response can carry an error."""

import struct
from collections.abc import Sequence

from libs.rpc.contracts.storage import Appended
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.headers import write_response_header
from libs.wire.messages.endpoints import NodeEndpoint
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, write_produce_response
from libs.wire.primitives import Writer
from services.gateway.appends.leader_appends import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID
from services.gateway.core.routing import Routes
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.endpoint_hints import endpoint_hints
from services.gateway.exchange.exchange import Exchange

FIRST_WITH_HINTS = 10
FIRST_WITH_TOPIC_IDS = 13

_LENGTH = struct.Struct(">i")


def respond(data_path: DataPath, exchange: Exchange, acks: int, topics: list[ProducedTopic], repeatable: bool) -> None:
    """Finishes the exchange. `repeatable`: each batch has a producer id, so the client may send it again."""
    version = exchange.api_version
    if version < FIRST_WITH_TOPIC_IDS:
        _name_topics(topics)
    errors = [produced.error_code for topic in topics for produced in topic.partitions if produced.error_code]
    for error in errors:
        exchange.error = error
        data_path.meters.failed(ApiKey.PRODUCE, error)
    if NOT_LEADER_OR_FOLLOWER in errors:
        exchange.connection.produced.refused()
    if acks == 0:
        if errors:
            # There is no answer to carry the error. As in Kafka, the connection closes instead.
            exchange.close("acks-0", f"error {errors[0]}")
        else:
            exchange.finish(None)
        return
    writer = Writer()
    writer.buffer += b"\0\0\0\0"
    write_response_header(writer, ApiKey.PRODUCE, version, exchange.correlation_id)
    endpoints: Sequence[NodeEndpoint] = ()
    if version >= FIRST_WITH_HINTS:
        if errors and (leaders := _fill_in_leaders(data_path.routes, topics, NOT_LEADER_OR_FOLLOWER)):
            endpoints = data_path.endpoints(leaders, exchange.connection)
        elif not errors and (endpoints := endpoint_hints(data_path, exchange, repeatable=repeatable)):
            _fill_in_leaders(data_path.routes, topics, 0)
    write_produce_response(writer, version, topics, 0, endpoints)
    _LENGTH.pack_into(writer.buffer, 0, len(writer.buffer) - 4)
    exchange.finish(writer.buffer)


def fill_in(produced: ProducedPartition, result: Appended) -> None:
    """Fills in what became of a batch."""
    if result.error == 0:
        produced.base_offset = result.base_offset
        produced.log_append_time_ms = result.log_append_time_ms
    else:
        produced.error_code = result.error
        produced.record_errors = result.record_errors
        produced.leader_id, produced.leader_epoch = result.leader, result.leader_epoch
    produced.log_start_offset = result.log_start_offset
    produced.error_message = result.message


def _name_topics(topics: list[ProducedTopic]) -> None:
    """Replaces the error for an unknown topic id, which clients that name their topics do not know."""
    for topic in topics:
        for produced in topic.partitions:
            if produced.error_code == UNKNOWN_TOPIC_ID:
                produced.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _fill_in_leaders(routes: Routes, topics: list[ProducedTopic], error: int) -> set[int]:
    """Fills in the leaders of the partitions with that error (KIP-951), and returns them."""
    leaders: set[int] = set()
    for topic in topics:
        route = routes.topic_by_id(topic.topic_id) if topic.topic_id is not None else routes.topic(topic.name or "")
        for produced in topic.partitions:
            if produced.error_code != error:
                continue
            partition_route = route.partition(produced.index) if route is not None else None
            if (
                partition_route is not None
                and partition_route.leader >= 0
                and partition_route.leader_epoch >= produced.leader_epoch
            ):
                produced.leader_id, produced.leader_epoch = partition_route
            if produced.leader_id >= 0:
                leaders.add(produced.leader_id)
    return leaders
