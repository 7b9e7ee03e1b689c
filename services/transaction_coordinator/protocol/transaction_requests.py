"""`transactions.ask`: clients' requests about transactions, as events for the shards of their transactional ids."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import GROUP_TOPIC, INTERNAL_TOPICS
from libs.coordinator.core.pending import Answer
from libs.coordinator.requests import client_requests
from libs.coordinator.requests.client_requests import ClientRequests, Count
from libs.coordinator.requests.deferred_requests import Write
from libs.coordinator.shards.shard_set import ShardSet
from libs.coordinator.tracing.call_spans import CallSpans
from libs.rpc.contracts.coordinators import ASK_TRANSACTIONS
from libs.rpc.server.call import Call
from libs.runtime.producer_ids import ProducerIds
from libs.telemetry.logs import fields
from libs.telemetry.tracing.span import SpanContext
from libs.wire.apis import TRANSACTION_APIS, Api
from libs.wire.errors import ErrorCode
from libs.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from libs.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from libs.wire.messages.describe_transactions import DescribeTransactionsRequest
from libs.wire.messages.end_txn import EndTxnRequest
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from libs.wire.messages.list_transactions import ListTransactionsRequest
from libs.wire.primitives import ProtocolError
from libs.wire.transaction_refusals import FIRST_WITH_SEVERAL_TRANSACTIONS
from services.transaction_coordinator.core.requests import (
    PRODUCER_ID_NEEDED,
    AddOffsets,
    AddPartitions,
    AddToSeveral,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    PartitionsReply,
    ProducerReply,
    Reply,
    Request,
    SeveralReply,
    VerifyPartitions,
)
from services.transaction_coordinator.core.transaction import NO_PRODUCER, NO_PRODUCER_ID, TRANSACTION_VERSION_2, Client, Producer
from services.transaction_coordinator.protocol.completions import Completions
from services.transaction_coordinator.protocol.responses import (
    write_added,
    write_described,
    write_ended,
    write_initialized,
    write_listed,
    write_offsets_added,
    write_several,
)

log = logging.getLogger("transactions")

FIRST_WITH_NEW_EPOCHS = 5
"""The version of EndTxn from which on clients take a new epoch from the answer (KIP-890)."""
FIRST_THAT_ADDS_FOR_CLIENTS = 5
"""The version of AddPartitionsToTxn from which on brokers add what clients of `transaction.version` 2 write to."""
COORDINATOR_LOAD_IN_PROGRESS = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class TransactionRequests(ClientRequests[Request, Reply]):
    """The RPC methods for clients. `image` gives the newest one. `on_traced_end` is called with the transactional id and the span
    of each EndTxn that has a trace, before it is decided, and `on_refused_end` if it is refused."""

    def __init__(
        self,
        shards: ShardSet[Request, Reply, Any],
        image: Callable[[], ClusterImage],
        producer_ids: ProducerIds,
        completions: Completions,
        count: Count,
        spans: CallSpans,
        on_traced_end: Callable[[str, SpanContext], None],
        on_refused_end: Callable[[str, SpanContext], None],
    ) -> None:
        super().__init__(ASK_TRANSACTIONS, TRANSACTION_APIS, shards, count, spans)
        self._image = image
        self._producer_ids = producer_ids
        self._completions = completions
        self._on_traced_end = on_traced_end
        self._on_refused_end = on_refused_end
        self._taking_ids: set[asyncio.Task[None]] = set()

    def decode(self, api: Api, version: int, body: bytes, client_id: str, client_host: str) -> tuple[Request, Write]:
        request: Any = api.read(memoryview(body), version)
        match request:
            case InitProducerIdRequest():
                return _init_producer_id(request, Client.shortened(client_id, client_host)), partial(write_initialized, version)
            case AddPartitionsToTxnRequest() if version >= FIRST_WITH_SEVERAL_TRANSACTIONS:
                return _add_to_several(request, version), partial(write_several, version, request)
            case AddPartitionsToTxnRequest():
                return _add_partitions(request), partial(write_added, version, request)
            case AddOffsetsToTxnRequest():
                return _add_offsets(request), partial(write_offsets_added, version)
            case EndTxnRequest():
                return _end(request, version), partial(write_ended, version)
            case DescribeTransactionsRequest():
                return DescribeTransactions(tuple(request.transactional_ids)), partial(write_described, version, request)
            case ListTransactionsRequest():
                return _list(request), partial(write_listed, version)
        raise ProtocolError(f"{api.name} is not decided here")

    def keys(self, api: Api, event: Request) -> Sequence[str]:
        match event:
            case InitProducerId() | AddPartitions() | AddOffsets() | EndTransaction():
                return (event.transactional_id,)
            case AddToSeveral(transactions):
                return [each.transactional_id for each in transactions]
            case DescribeTransactions():
                return event.transactional_ids
        return ()

    def reads_topics(self, event: Request) -> bool:
        return isinstance(event, AddPartitions | AddOffsets | AddToSeveral)

    def submit(self, call: Call, api: Api, write: Write, shard: int, event: Request) -> None:
        refusal = self._refusal(event)
        if refusal is not None:
            self.answer(call, api, write, Answer(None, 0, refusal))
        elif isinstance(event, AddToSeveral):
            self._add_to_several(call, api, write, shard, event)
        elif isinstance(event, ListTransactions) and len(self._ids(shard)) > client_requests.LISTED_AT_ONCE:
            self.list_by_turns(call, api, write, shard, lambda: [*self._ids(shard)], lambda some: event._replace(ids=some))
        else:
            self._decide_on(call, api, write, shard, event, may_wait=True)

    async def close(self) -> None:
        for task in self._taking_ids:
            task.cancel()
        await super().close()

    def _ids(self, shard: int) -> Collection[str]:
        """The transactional ids of the shard. Empty: it is not served here."""
        driver = self._shards.serving.get(shard)
        if driver is None:
            return ()
        observed: Any = driver.machine
        transactions: Collection[str] = observed.machine.transactions
        return transactions

    def _refusal(self, event: Request) -> Reply | None:
        """The reply to a request that no shard need decide."""
        match event:
            case AddPartitions(transactional_id="") | AddOffsets(transactional_id=""):
                return PartitionsReply(ErrorCode.INVALID_REQUEST)
            case EndTransaction(transactional_id=""):
                return ProducerReply(ErrorCode.INVALID_REQUEST)
            case AddPartitions():
                return refused_partitions(self._image(), event)
            case InitProducerId(expected=Producer() as expected) if NO_PRODUCER_ID in expected:
                return ProducerReply(ErrorCode.INVALID_REQUEST)  # as in Kafka: it takes both or none
        return None

    def _add_to_several(self, call: Call, api: Api, write: Write, shard: int, event: AddToSeveral) -> None:
        """Has the shard decide about those that it need decide about."""
        refusals = [_refusal_of_one(self._image(), each) for each in event.transactions]
        asked = [each for each, refusal in zip(event.transactions, refusals, strict=True) if refusal is None]

        def decided(answer: Answer[Reply, Any]) -> None:
            if isinstance(answer.reply, SeveralReply):
                results = iter(answer.reply.results)
                merged = tuple(next(results) if refusal is None else refusal for refusal in refusals)
                answer = answer._replace(reply=SeveralReply(merged))
            self.answer(call, api, write, answer)

        self._shards.submit(shard, AddToSeveral(tuple(asked)), decided, self.spans.of_append(call))

    def _decide_on(self, call: Call, api: Api, write: Write, shard: int, event: Request, *, may_wait: bool) -> None:
        """`may_wait`: for the markers of the last transaction, once."""
        if isinstance(event, EndTransaction) and (own := self.spans.of_decision(call)) is not None:
            self._on_traced_end(event.transactional_id, own)
        decided = partial(self._decided, call, api, write, shard, event, may_wait)
        self._shards.submit(shard, event, decided, self.spans.of_append(call))

    def _decided(
        self, call: Call, api: Api, write: Write, shard: int, event: Request, may_wait: bool, answer: Answer[Reply, Any]
    ) -> None:
        if answer.reply is PRODUCER_ID_NEEDED:
            task = asyncio.get_running_loop().create_task(self._with_producer_id(call, api, write, shard, event))
            self._taking_ids.add(task)
            task.add_done_callback(self._taking_ids.discard)
        elif may_wait and isinstance(event, AddPartitions | AddOffsets | InitProducerId) and is_concurrent(answer.reply):
            again = partial(self._once_more, call, api, write, shard, event)
            self._completions.wait(event.transactional_id, again)
        else:
            if isinstance(event, EndTransaction) and _is_refused(answer) and (own := self.spans.of_decision(call)) is not None:
                self._on_refused_end(event.transactional_id, own)
            self.answer(call, api, write, answer)

    def _once_more(self, call: Call, api: Api, write: Write, shard: int, event: Request) -> None:
        if call.open:  # else nobody would end the transaction that this begins
            self._decide_on(call, api, write, shard, event, may_wait=False)
            self._shards.end_turn()

    async def _with_producer_id(self, call: Call, api: Api, write: Write, shard: int, event: Request) -> None:
        """Decides again, with an unused producer id."""
        assert isinstance(event, InitProducerId | EndTransaction)
        try:
            fresh_id = await self._producer_ids.next()
        except Exception as error:
            log.info("no producer id can be had", extra=fields(api=api.name, reason=error))
            self.answer(call, api, write, Answer(None, COORDINATOR_LOAD_IN_PROGRESS))
            return
        self.submit(call, api, write, shard, event._replace(fresh_producer_id=fresh_id))
        self._shards.end_turn()


def _is_refused(answer: Answer[Reply, Any]) -> bool:
    return bool(answer.error or (isinstance(answer.reply, ProducerReply) and answer.reply.error_code))


def is_concurrent(reply: Reply | None) -> bool:
    """Whether the reply only says that markers are being written."""
    return isinstance(reply, ProducerReply | PartitionsReply) and reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def refused_partitions(
    image: ClusterImage, event: AddPartitions | VerifyPartitions, *, by_group_coordinator: bool = False
) -> PartitionsReply | None:
    """As in Kafka, a request that names an unknown partition adds none, nor does one that names an internal topic: only their
    coordinators write there. None: all may be added.

    `by_group_coordinator`: it names shards of `__consumer_offsets`."""
    counts = {topic: known.partitions for topic, _ in event.partitions if (known := image.topics.get(topic)) is not None}
    results = dict.fromkeys(event.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic, index in event.partitions:
        if topic in INTERNAL_TOPICS and not (by_group_coordinator and topic == GROUP_TOPIC):
            results[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not 0 <= index < counts.get(topic, 0):
            results[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionsReply(ErrorCode.NONE, results) if set(results.values()) - {ErrorCode.OPERATION_NOT_ATTEMPTED} else None


def _refusal_of_one(image: ClusterImage, event: AddPartitions | VerifyPartitions) -> PartitionsReply | None:
    """The refusal of one of several transactions. Brokers send these, and group coordinators are among them."""
    if not event.transactional_id:
        return PartitionsReply(ErrorCode.INVALID_REQUEST)
    return refused_partitions(image, event, by_group_coordinator=True)


def _init_producer_id(request: InitProducerIdRequest, client: Client) -> InitProducerId:
    """Raises ProtocolError: without a transactional id, the gateway answers."""
    if not request.transactional_id:
        raise ProtocolError("InitProducerId without a transactional id")
    expected = Producer(request.producer_id, request.producer_epoch)
    return InitProducerId(
        request.transactional_id,
        request.transaction_timeout_ms,
        None if expected == NO_PRODUCER else expected,
        client=client,
    )


def _add_partitions(request: AddPartitionsToTxnRequest) -> AddPartitions:
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    partitions = frozenset((topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions)
    return AddPartitions(request.v3_and_below_transactional_id, producer, partitions, client_version=0)


def _add_to_several(request: AddPartitionsToTxnRequest, version: int) -> AddToSeveral:
    client_version = TRANSACTION_VERSION_2 if version >= FIRST_THAT_ADDS_FOR_CLIENTS else 0
    return AddToSeveral(tuple(_add_to_one(transaction, client_version) for transaction in request.transactions))


def _add_to_one(transaction: AddPartitionsToTxnTransaction, client_version: int) -> AddPartitions | VerifyPartitions:
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    if transaction.verify_only:
        return VerifyPartitions(transaction.transactional_id, producer, partitions)
    return AddPartitions(transaction.transactional_id, producer, partitions, client_version)


def _add_offsets(request: AddOffsetsToTxnRequest) -> AddOffsets:
    return AddOffsets(request.transactional_id, Producer(request.producer_id, request.producer_epoch), request.group_id)


def _list(request: ListTransactionsRequest) -> ListTransactions:
    states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    return ListTransactions(states, producer_ids, request.duration_filter, request.transactional_id_pattern or "")


def _end(request: EndTxnRequest, version: int) -> EndTransaction:
    producer = Producer(request.producer_id, request.producer_epoch)
    client_version = TRANSACTION_VERSION_2 if version >= FIRST_WITH_NEW_EPOCHS else 0
    return EndTransaction(request.transactional_id, producer, request.committed, client_version)
