"""A Fetch's response from what was found for each of its partitions, in the words of the client's version."""

from collections.abc import Mapping, Sequence

from libs.rpc.contracts.storage import Fetched
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchedPartition, FetchRequest, FetchResponseWriter
from services.gateway.data_path import DataPath
from services.gateway.exchange import Answer, Exchange
from services.gateway.record_ranges import Part, length_of

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FENCED = int(ErrorCode.FENCED_LEADER_EPOCH)
UNKNOWN_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
FIRST_WITH_TOPIC_IDS = 13
NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)
FIRST_WITH_NOT_AVAILABLE = 11

Found = Mapping[int, Sequence[Part]]
"""Records by slot."""


def frame(
    data_path: DataPath, exchange: Exchange, request: FetchRequest, error: int, results: Sequence[Fetched], records: Found
) -> Answer:
    # As in Kafka, a topic without partitions is not mentioned.
    topics = [topic for topic in request.topics if topic.partitions] if not error else []
    version = exchange.api_version
    writer: FetchResponseWriter[Part] = FetchResponseWriter(version, exchange.correlation_id, len(topics), error_code=error)
    leaders: set[int] = set()
    slot = 0
    for topic in topics:
        writer.begin_topic(topic.name, topic.topic_id, len(topic.partitions))
        for partition in topic.partitions:
            result = results[slot]
            state = _state(version, request, partition.partition_index, result)
            if result.error in (NOT_LEADER, FENCED) and result.leader >= 0:
                state.leader_id, state.leader_epoch = result.leader, result.leader_epoch
                leaders.add(result.leader)
            of_slot: Sequence[Part] = records.get(slot, ())
            writer.partition(state, of_slot, length_of(of_slot))
            slot += 1
        writer.end_topic()
    endpoints = data_path.endpoints(leaders, exchange.connection) if leaders else ()
    return writer.finish(endpoints).pieces


def is_plain(result: Fetched) -> bool:
    """Nothing but records and their bounds, which is what a shape can answer."""
    return result.error == 0 and result.diverging_epoch < 0 and result.preferred_read_replica < 0


def _state(version: int, request: FetchRequest, index: int, result: Fetched) -> FetchedPartition:
    error = result.error
    if error == UNKNOWN_TOPIC_ID and version < FIRST_WITH_TOPIC_IDS:
        error = UNKNOWN_PARTITION  # leaders know topics by their ids; this client names them
    if error == NOT_AVAILABLE and version < FIRST_WITH_NOT_AVAILABLE:
        error = NOT_LEADER  # what every client asks again after
    return FetchedPartition(
        index,
        error,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        result.aborted if request.isolation_level or result.error in (UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID) else None,
        preferred_read_replica=result.preferred_read_replica,
        diverging_epoch=result.diverging_epoch,
        diverging_end_offset=result.diverging_end_offset,
    )
