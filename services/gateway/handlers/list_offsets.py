"""ListOffsets (2), versions 1-11. Each partition's leader is asked, wherever it is.

v2 isolation level · v4 leader epochs · v5 OFFSET_NOT_AVAILABLE · v6 flexible · v7 -3, the greatest timestamp · v8 -4, earliest
local · v9 -5, latest tiered · v10 timeout · v11 -6, earliest pending upload.

The request waits for a partition without a leader, and for a new leader that has not yet committed its predecessor's records. It
waits for half of its timeout, at most 5 s. It may be sent twice, since it is a read. Only a lookup by timestamp is not sent to
the next leader when one received it and did not answer (`core/lookups.py`).

Differences from Kafka: the leader is asked wherever it is, where Kafka answers NOT_LEADER_OR_FOLLOWER. It waits up to 0.5 s until
consumers may see what was acknowledged with acks=0 or 1.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.storage import LIST_OFFSETS, ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from services.gateway.core.lookups import has_meaning, is_lookup, lookup_timeout_s
from services.gateway.core.request_spans import partition_subject
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.leader_requests import LeaderRequest, ask_leaders, error_by_name
from services.gateway.shortcuts.list_offsets_shortcut import ISOLATION_LEVELS, ListOffsetsShortcut

TIMEOUT_S_MAX = 5.0

LATE = ListedOffset(ErrorCode.REQUEST_TIMED_OUT)
"""The answer for a lookup that its leader had no time for, as of Kafka's lookups in remote storage."""

RETRIABLE_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE)

Key = tuple[str, int]


@dataclass(slots=True)
class _Query:
    topic_id: bytes
    partition: int
    timestamp: int
    leader_epoch: int


async def handle(gateway: GatewayState, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    version, calls = context.api_version, context.calls
    queries, answers = _split(gateway, request, version)
    has_lookups = any(is_lookup(query.timestamp) for query in queries.values())
    retry_timeout_s = TIMEOUT_S_MAX if version < 10 else min(max(request.timeout_ms, 0) / 2000, TIMEOUT_S_MAX)
    answers |= await ask_leaders(
        gateway,
        {key: (query.topic_id, query.partition) for key, query in queries.items()},
        LeaderRequest(
            LIST_OFFSETS,
            lambda keys: _body(request, [queries[key] for key in keys]),
            ListOffsetsReply,
            is_final=lambda answer: answer.error not in RETRIABLE_ERRORS,
            retry_timeout_s=retry_timeout_s,
            answer_timeout_s=lookup_timeout_s(version, request.timeout_ms) if has_lookups else None,
            repeats_lost=lambda key: not is_lookup(queries[key].timestamp),
            late_answer=lambda key: LATE if is_lookup(queries[key].timestamp) else None,
            asked=lambda key: calls.asks(LIST_OFFSETS, partition_subject(*key)) if calls is not None else None,
        ),
    )
    for key in queries:
        answers.setdefault(key, ListedOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    response = ListOffsetsResponse()
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        for partition in topic.partitions:  # as in Kafka, a topic without partitions is not mentioned
            indexes.setdefault(topic.name, {})[partition.partition_index] = None
    for name, partition_indexes in indexes.items():
        described = [_described(index, answers[name, index], version) for index in partition_indexes]
        response.topics.append(ListOffsetsTopicResponse(name, described))
    return response


def _split(gateway: GatewayState, request: ListOffsetsRequest, version: int) -> tuple[dict[Key, _Query], dict[Key, ListedOffset]]:
    """The queries for the leaders, and the answers that need no query."""
    image = gateway.image
    mentions = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    queries: dict[Key, _Query] = {}
    answers: dict[Key, ListedOffset] = {}
    for wanted in request.topics:
        topic = image.topics.get(wanted.name)
        for p in wanted.partitions:
            key = (wanted.name, p.partition_index)
            if mentions[key] > 1 or request.isolation_level not in ISOLATION_LEVELS:
                answers[key] = ListedOffset(ErrorCode.INVALID_REQUEST)
            elif not has_meaning(p.timestamp, version):
                answers[key] = ListedOffset(ErrorCode.UNSUPPORTED_VERSION)
            elif topic is None or not 0 <= p.partition_index < topic.partitions:
                answers[key] = ListedOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                topic_id = bytes.fromhex(topic.topic_id)
                queries[key] = _Query(topic_id, p.partition_index, p.timestamp, p.current_leader_epoch)
    return queries, answers


def _body(request: ListOffsetsRequest, queries: Sequence[_Query]) -> ListOffsets:
    wanted = tuple(ListOffsetsPartition(q.topic_id, q.partition, q.timestamp, q.leader_epoch) for q in queries)
    return ListOffsets(request.isolation_level, wanted, request.replica_id)


def _described(index: int, answer: ListedOffset, version: int) -> ListOffsetsPartitionResponse:
    error = error_by_name(answer.error)
    if error == ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(index, error, answer.timestamp, answer.offset, answer.leader_epoch)


SERVED_API: Final = ServedApi(APIS[ApiKey.LIST_OFFSETS], handle, shortcut=ListOffsetsShortcut())
