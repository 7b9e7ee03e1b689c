"""TxnOffsetCommit, versions 0 to 5: offsets that take effect with their producer's transaction (KIP-98, KIP-447).

Version 2 added leader epochs, version 3 member ids and generations (KIP-447). From version 4 on clients know
TRANSACTION_ABORTABLE, and from version 5 on they leave it to the coordinator to add the offsets to the transaction (KIP-890).
Whoever asks for a decision has learnt from the transaction coordinator that the offsets belong to the transaction.
"""

from typing import Any, Final

from libs.coordinator.core.decisions import Decision
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from libs.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.model.group_kind import Kind
from services.group_coordinator.core.model.records import OffsetPending, TransactionEnded
from services.group_coordinator.core.model.requests import MarkerReply, TransactionMarker
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.core.offsets.commits import NAMED_BY_ID_FROM, commit
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets

BY_NAME: Final = NAMED_BY_ID_FROM - 1
"""A version of OffsetCommit that has all that TxnOffsetCommit has."""


def decide_transactional_commit(
    kind: Kind, request: TxnOffsetCommitRequest, topics: TopicsView, metadata_max: int, now_ms: int
) -> Decision[TxnOffsetCommitResponse, Any]:
    """The decision about one request. `kind` is the group's kind."""
    name = request.group_id

    def error() -> ErrorCode:
        if not name:
            return ErrorCode.INVALID_GROUP_ID
        return kind.transactional_commit_error(name, request.member_id, request.group_instance_id, request.generation_id)

    committed = commit(_plain(request), BY_NAME, topics, metadata_max, now_ms, error)
    producer_id, epoch = request.producer_id, request.producer_epoch
    records = [OffsetPending(producer_id, epoch, record) for record in committed.records] if not committed.error else []
    transaction = TransactionalBatch(producer_id, epoch) if records else None
    return Decision(_response(committed.answers), records, transaction=transaction)


def refuse_transactional_commit(request: TxnOffsetCommitRequest, topics: TopicsView, error: int) -> TxnOffsetCommitResponse:
    """The answer to a request whose offsets belong to no transaction. As in Kafka, unknown partitions are told apart."""
    return _response(commit(_plain(request), BY_NAME, topics, 0, 0, lambda: ErrorCode(error)).answers)


def names_known_partition(request: TxnOffsetCommitRequest, topics: TopicsView) -> bool:
    """Whether the request is about any partition that exists."""
    for topic in request.topics:
        known = topics.by_name.get(topic.name)
        if known is not None and any(0 <= partition.partition_index < known.partitions for partition in topic.partitions):
            return True
    return False


def decide_marker(pending: PendingOffsets, marker: TransactionMarker) -> Decision[MarkerReply, Any]:
    """The decision about the end of a producer's transaction. The partition's leader knows producers that have none open here,
    and refuses markers of older ones."""
    producer_id, epoch, commits, raises_epoch, coordinator_epoch = marker
    open_epoch = pending.epoch_of(producer_id)
    if open_epoch is not None and epoch < open_epoch:
        return Decision(MarkerReply(ErrorCode.INVALID_PRODUCER_EPOCH))
    if open_epoch == epoch and raises_epoch:
        return Decision(MarkerReply(ErrorCode.INVALID_TXN_STATE))
    ended = TransactionEnded(producer_id, epoch, commits, coordinator_epoch)
    return Decision(MarkerReply(ErrorCode.NONE), [ended], transaction=TransactionalBatch(producer_id, epoch, is_marker=True))


def _plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """The same offsets without the transaction."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id, topics=topics
    )


def _response(answers: list[OffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(each.partition_index, each.error_code) for each in topic.partitions],
            )
            for topic in answers
        ]
    )
