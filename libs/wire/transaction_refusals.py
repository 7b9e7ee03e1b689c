"""Responses about transactions that have an error everywhere, and the errors that older versions of these APIs know.

They are those of Kafka's requests (`getErrorResponse`). PRODUCER_FENCED (90) is INVALID_PRODUCER_EPOCH (47) for clients that do
not know it yet, as in Kafka.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1

FIRST_WITH_SEVERAL_TRANSACTIONS: Final = 4
"""The version of AddPartitionsToTxn from which on it names several transactions."""

FIRST_WITH_FENCED: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The version of each API from which on it answers PRODUCER_FENCED."""


def known_error(key: ApiKey, error: int, version: int) -> int:
    """The error as a client of that version knows it."""
    fenced = error == ErrorCode.PRODUCER_FENCED and version < FIRST_WITH_FENCED[key]
    return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else error


def init_producer_id_response(
    request: init_producer_id.InitProducerIdRequest, error: int, version: int
) -> init_producer_id.InitProducerIdResponse:
    error = known_error(ApiKey.INIT_PRODUCER_ID, error, version)
    return init_producer_id.InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def add_partitions_response(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, error: int, version: int
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    if version >= FIRST_WITH_SEVERAL_TRANSACTIONS:
        return added_to_several(request, lambda place, topic, index: error)
    return added_partitions(request, version, lambda topic, index: error)


def added_partitions(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, version: int, error_of: Callable[[str, int], int]
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    """The response with the error of each topic and partition index, up to version 3."""

    def known(topic: str, index: int) -> int:
        return known_error(ApiKey.ADD_PARTITIONS_TO_TXN, error_of(topic, index), version)

    results = _topic_results(request.v3_and_below_topics, known)
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def added_to_several(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, error_of: Callable[[int, str, int], int]
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    """The response from version 4 on, with the error of each transaction's place in the request, topic and partition index."""
    results = [
        add_partitions_to_txn.AddPartitionsToTxnResult(
            transaction.transactional_id, _topic_results(transaction.topics, partial(error_of, place))
        )
        for place, transaction in enumerate(request.transactions)
    ]
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_transaction=results)


def added_to_one(
    transaction: add_partitions_to_txn.AddPartitionsToTxnTransaction, error: int, version: int
) -> add_partitions_to_txn.AddPartitionsToTxnResult:
    """The result of one transaction with an error for all of it. As in Kafka, an id without a name is refused before anybody
    looks for its coordinator."""
    error = error if transaction.transactional_id else ErrorCode.INVALID_REQUEST
    results = _topic_results(transaction.topics, lambda topic, index: error)
    return add_partitions_to_txn.AddPartitionsToTxnResult(transaction.transactional_id, results)


def _topic_results(
    topics: Iterable[add_partitions_to_txn.AddPartitionsToTxnTopic], error_of: Callable[[str, int], int]
) -> list[add_partitions_to_txn.AddPartitionsToTxnTopicResult]:
    result = add_partitions_to_txn.AddPartitionsToTxnPartitionResult
    return [
        add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            topic.name, [result(index, error_of(topic.name, index)) for index in topic.partitions]
        )
        for topic in topics
    ]


def describe_one(transactional_id: str, error: int, version: int) -> describe_transactions.TransactionState:
    """As in Kafka, an id without a name is refused before anybody looks for its coordinator."""
    error = error if transactional_id else ErrorCode.INVALID_REQUEST
    return describe_transactions.TransactionState(error_code=error, transactional_id=transactional_id)


def describe_response(
    request: describe_transactions.DescribeTransactionsRequest, error: int, version: int
) -> describe_transactions.DescribeTransactionsResponse:
    states = [describe_one(transactional_id, error, version) for transactional_id in request.transactional_ids]
    return describe_transactions.DescribeTransactionsResponse(transaction_states=states)


def end_response(request: end_txn.EndTxnRequest, error: int, version: int) -> end_txn.EndTxnResponse:
    return end_txn.EndTxnResponse(error_code=known_error(ApiKey.END_TXN, error, version))


def add_offsets_response(
    request: add_offsets_to_txn.AddOffsetsToTxnRequest, error: int, version: int
) -> add_offsets_to_txn.AddOffsetsToTxnResponse:
    return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=known_error(ApiKey.ADD_OFFSETS_TO_TXN, error, version))


def txn_offset_commit_response(
    request: txn_offset_commit.TxnOffsetCommitRequest, error: int, version: int
) -> txn_offset_commit.TxnOffsetCommitResponse:
    topics = [
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            topic.name,
            [
                txn_offset_commit.TxnOffsetCommitResponsePartition(partition.partition_index, error)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)
