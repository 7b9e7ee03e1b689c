"""The responses to clients' requests about transactions, from the replies of the core, in the version of the request."""

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from libs.wire.messages.add_offsets_to_txn import write_response as write_add_offsets
from libs.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from libs.wire.messages.add_partitions_to_txn import write_response as write_add_partitions
from libs.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData
from libs.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from libs.wire.messages.describe_transactions import write_response as write_describe
from libs.wire.messages.end_txn import EndTxnResponse
from libs.wire.messages.end_txn import write_response as write_end
from libs.wire.messages.init_producer_id import InitProducerIdResponse
from libs.wire.messages.init_producer_id import write_response as write_init_producer_id
from libs.wire.messages.list_transactions import ListTransactionsResponse
from libs.wire.messages.list_transactions import TransactionState as ListedTransaction
from libs.wire.messages.list_transactions import write_response as write_list
from libs.wire.primitives import Writer
from libs.wire.transaction_refusals import added_partitions, added_to_several, known_error
from services.transaction_coordinator.core.requests import (
    DescriptionReply,
    ListingReply,
    PartitionsReply,
    ProducerReply,
    SeveralReply,
)
from services.transaction_coordinator.core.transaction import Transaction


def write_initialized(version: int, reply: ProducerReply) -> bytearray:
    writer = Writer()
    error = known_error(ApiKey.INIT_PRODUCER_ID, reply.error_code, version)
    response = InitProducerIdResponse(0, error, reply.producer.producer_id, reply.producer.epoch)
    write_init_producer_id(writer, response, version)
    return writer.buffer


def write_added(version: int, request: AddPartitionsToTxnRequest, reply: PartitionsReply) -> bytearray:
    def error_of(topic: str, index: int) -> int:
        return reply.error_code or reply.partitions.get((topic, index), ErrorCode.NONE)

    writer = Writer()
    write_add_partitions(writer, added_partitions(request, version, error_of), version)
    return writer.buffer


def write_several(version: int, request: AddPartitionsToTxnRequest, reply: SeveralReply) -> bytearray:
    def error_of(place: int, topic: str, index: int) -> int:
        result = reply.results[place]
        return result.error_code or result.partitions.get((topic, index), ErrorCode.NONE)

    writer = Writer()
    write_add_partitions(writer, added_to_several(request, error_of), version)
    return writer.buffer


def write_offsets_added(version: int, reply: PartitionsReply) -> bytearray:
    writer = Writer()
    error = known_error(ApiKey.ADD_OFFSETS_TO_TXN, reply.error_code, version)
    write_add_offsets(writer, AddOffsetsToTxnResponse(0, error), version)
    return writer.buffer


def write_listed(version: int, reply: ListingReply) -> bytearray:
    writer = Writer()
    states = [
        ListedTransaction(each.transactional_id, each.producer.producer_id, each.state.value) for each in reply.transactions
    ]
    write_list(writer, ListTransactionsResponse(0, reply.error_code, transaction_states=states), version)
    return writer.buffer


def write_described(version: int, request: DescribeTransactionsRequest, reply: DescriptionReply) -> bytearray:
    states = [
        _described(name, error, transaction)
        for name, (error, transaction) in zip(request.transactional_ids, reply.results, strict=True)
    ]
    writer = Writer()
    write_describe(writer, DescribeTransactionsResponse(transaction_states=states), version)
    return writer.buffer


def _described(name: str, error: ErrorCode, transaction: Transaction | None) -> DescribedTransaction:
    if transaction is None:
        return DescribedTransaction(error_code=error, transactional_id=name)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return DescribedTransaction(
        error,
        name,
        transaction.state.value,
        transaction.timeout_ms,
        transaction.started_ms,
        transaction.producer.producer_id,
        transaction.producer.epoch,
        [TopicData(topic, indexes) for topic, indexes in topics.items()],
    )


def write_ended(version: int, reply: ProducerReply) -> bytearray:
    writer = Writer()
    error = known_error(ApiKey.END_TXN, reply.error_code, version)
    write_end(writer, EndTxnResponse(0, error, reply.producer.producer_id, reply.producer.epoch), version)
    return writer.buffer
