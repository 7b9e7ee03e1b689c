"""The response to a Fetch, in the client's version, from the results of its partitions."""

from collections.abc import Mapping, Sequence

from libs.rpc.contracts.storage import Fetched
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchedPartition, FetchRequest, FetchResponseWriter
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Answer, Exchange
from services.gateway.fetch.record_ranges import Part, length_of

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FENCED_LEADER_EPOCH = int(ErrorCode.FENCED_LEADER_EPOCH)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
WITHOUT_PARTITION = (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
"""The errors of partitions that Kafka does not look at. Their answer has an empty list of aborted transactions."""
FIRST_WITH_TOPIC_IDS = 13
OFFSET_NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)
FIRST_WITH_NOT_AVAILABLE = 11

RecordsBySlot = Mapping[int, Sequence[Part]]
"""The records by slot, the partition's place in the request."""


def frame(
    data_path: DataPath, exchange: Exchange, request: FetchRequest, error: int, results: Sequence[Fetched], records: RecordsBySlot
) -> Answer:
    # As in Kafka, a topic without partitions is not mentioned.
    topics = [topic for topic in request.topics if topic.partitions] if not error else []
    version = exchange.api_version
    writer: FetchResponseWriter[Part] = FetchResponseWriter(version, exchange.correlation_id, len(topics), error_code=error)
    leaders: set[int] = set()
    slot = 0
    if error:
        exchange.error = error
        data_path.meters.failed(ApiKey.FETCH, error)
    for topic in topics:
        writer.begin_topic(topic.name, topic.topic_id, len(topic.partitions))
        for partition in topic.partitions:
            result = results[slot]
            state = _state(version, request, partition.partition_index, result)
            if result.error in (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH) and result.leader >= 0:
                state.leader_id, state.leader_epoch = result.leader, result.leader_epoch
                leaders.add(result.leader)
            if state.error_code:
                exchange.error = state.error_code
                data_path.meters.failed(ApiKey.FETCH, state.error_code)
            slot_records: Sequence[Part] = records.get(slot, ())
            writer.partition(state, slot_records, length_of(slot_records))
            slot += 1
        writer.end_topic()
    endpoints = data_path.endpoints(leaders, exchange.connection) if leaders else ()
    return writer.finish(endpoints).pieces


def is_plain(result: Fetched) -> bool:
    """Whether the result has only records and their bounds, so that a template can answer it."""
    return result.error == 0 and result.diverging_epoch < 0 and result.preferred_read_replica < 0


def _state(version: int, request: FetchRequest, index: int, result: Fetched) -> FetchedPartition:
    error = result.error
    if error == UNKNOWN_TOPIC_ID and version < FIRST_WITH_TOPIC_IDS:
        error = UNKNOWN_TOPIC_OR_PARTITION  # leaders know topics by their ids, but this client names them
    if error == OFFSET_NOT_AVAILABLE and version < FIRST_WITH_NOT_AVAILABLE:
        error = NOT_LEADER_OR_FOLLOWER  # after which each client retries
    return FetchedPartition(
        index,
        error,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        result.aborted if request.isolation_level or result.error in WITHOUT_PARTITION else None,
        preferred_read_replica=result.preferred_read_replica,
        diverging_epoch=result.diverging_epoch,
        diverging_end_offset=result.diverging_end_offset,
    )
