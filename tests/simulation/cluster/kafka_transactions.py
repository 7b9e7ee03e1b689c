"""Requests of a transactional producer, in the versions that each generation of clients sends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from libs.wire.api_keys import ApiKey
from libs.wire.messages import add_offsets_to_txn, add_partitions_to_txn, end_txn, init_producer_id, txn_offset_commit
from libs.wire.record_batches.records import Record, build_batch
from tests.simulation.cluster.kafka_client import Link, Partition, call
from tests.simulation.cluster.kafka_groups import by_topic

INIT_VERSION, ADD_PARTITIONS_VERSION, ADD_OFFSETS_VERSION = 4, 3, 3
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of clients: versions of requests, and who adds partitions to a transaction."""

    name: str
    produce: int
    end: int
    commit_offsets: int
    adds: bool
    """Whether the client adds partitions and groups itself. Else their owners do (KIP-890)."""


TV0 = Generation("TV0", 10, 3, 3, adds=True)
TV1 = Generation("TV1", 11, 4, 4, adds=True)
TV2 = Generation("TV2", 12, 5, 5, adds=False)

_CALLS: dict[type, tuple[ApiKey, Callable[..., object], Callable[..., Any]]] = {
    init_producer_id.InitProducerIdRequest: (
        *(ApiKey.INIT_PRODUCER_ID, init_producer_id.write_request, init_producer_id.read_response),
    ),
    add_partitions_to_txn.AddPartitionsToTxnRequest: (
        *(ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn.write_request, add_partitions_to_txn.read_response),
    ),
    add_offsets_to_txn.AddOffsetsToTxnRequest: (
        *(ApiKey.ADD_OFFSETS_TO_TXN, add_offsets_to_txn.write_request, add_offsets_to_txn.read_response),
    ),
    end_txn.EndTxnRequest: (ApiKey.END_TXN, end_txn.write_request, end_txn.read_response),
    txn_offset_commit.TxnOffsetCommitRequest: (
        *(ApiKey.TXN_OFFSET_COMMIT, txn_offset_commit.write_request, txn_offset_commit.read_response),
    ),
}


async def ask(link: Link, request: Any, version: int, timeout_s: float) -> Any:
    """The answer. Raises Disconnected."""
    key, write, read = _CALLS[type(request)]
    return await call(link, key, version, write, request, read, timeout_s)


@dataclass(frozen=True, slots=True)
class Session:
    """A producer that has its transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int

    def add(self, partition: Partition) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(partition[0], [partition[1]])
        return add_partitions_to_txn.AddPartitionsToTxnRequest([], self.transactional_id, self.producer_id, self.epoch, [topic])

    def add_offsets(self, group: str) -> add_offsets_to_txn.AddOffsetsToTxnRequest:
        return add_offsets_to_txn.AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)

    def end(self, *, commit: bool) -> end_txn.EndTxnRequest:
        return end_txn.EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)

    def commit_offsets(self, group: str, offsets: Mapping[Partition, int]) -> txn_offset_commit.TxnOffsetCommitRequest:
        topics = [
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                topic, [txn_offset_commit.TxnOffsetCommitRequestPartition(index, offsets[topic, index]) for index in indexes]
            )
            for topic, indexes in by_topic(offsets).items()
        ]
        return txn_offset_commit.TxnOffsetCommitRequest(
            *(self.transactional_id, group, self.producer_id, self.epoch, NO_GENERATION), topics=topics
        )

    def batch(self, records: Sequence[Record], sequence: int) -> bytes:
        return bytes(
            build_batch(
                records,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )


def error_of(answer: Any) -> int:
    """The first error of an answer."""
    match answer:
        case add_partitions_to_txn.AddPartitionsToTxnResponse():
            topics = answer.results_by_topic_v3_and_below
            return next((one.partition_error_code for topic in topics for one in topic.results_by_partition), 0)
        case txn_offset_commit.TxnOffsetCommitResponse():
            errors = [one.error_code for topic in answer.topics for one in topic.partitions]
            return next((error for error in errors if error), 0)
    return int(answer.error_code)
