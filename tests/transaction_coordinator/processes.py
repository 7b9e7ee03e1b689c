"""Whole transaction coordinator processes in this one, over a real storage node; the test plays controller and gateway."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from pathlib import Path
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR, ElectedController, Member
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.controller import ALLOCATE_PRODUCER_IDS, HEARTBEAT, Heartbeat, HeartbeatReply, ProducerIdBlock
from libs.rpc.contracts.coordinators import ASK_TRANSACTIONS, Ask, AskReply
from libs.rpc.contracts.storage import Appended, AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, Marker, WriteMarkers
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.telemetry.tracing.rpc_context import pack_context
from libs.telemetry.tracing.span import SpanContext
from libs.wire.api_keys import ApiKey
from libs.wire.messages import add_offsets_to_txn, add_partitions_to_txn, end_txn, init_producer_id, list_transactions
from libs.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from libs.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from libs.wire.messages.end_txn import EndTxnRequest
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from libs.wire.messages.list_transactions import ListTransactionsRequest
from libs.wire.primitives import Reader, Writer
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.process import serve
from tests.coordinator.processes import CoordinatorProcess
from tests.storage.cluster import WAIT_S, StorageCluster

TIMEOUT_MS = 60_000
WIRE: dict[type, tuple[int, Any]] = {
    InitProducerIdRequest: (ApiKey.INIT_PRODUCER_ID, init_producer_id),
    AddOffsetsToTxnRequest: (ApiKey.ADD_OFFSETS_TO_TXN, add_offsets_to_txn),
    AddPartitionsToTxnRequest: (ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn),
    EndTxnRequest: (ApiKey.END_TXN, end_txn),
    ListTransactionsRequest: (ApiKey.LIST_TRANSACTIONS, list_transactions),
}


class ProducerIdController:
    """The elected controller, which hands out blocks of producer ids."""

    def __init__(self) -> None:
        self._next = itertools.count(1000, 1000)
        self.findings: set[tuple[str, str]] = set()
        """What heartbeats have told: kinds and names."""
        self._server = RpcServer(
            Hello(CONTROLLER, 7, 1, "test", 1, "test-cluster"),
            {ALLOCATE_PRODUCER_IDS: self._allocate, HEARTBEAT: self._hear},
            transport=SocketTransport(),
        )

    async def elect(self, node: StorageCluster, path: Path) -> "ProducerIdController":
        address = await self._server.listen(f"unix:{path}/k")
        await node.write(keys.member(CONTROLLER, 7), encode(Member(CONTROLLER, 7, 1, "this-host", unix_address=address)))
        await node.write(keys.CONTROLLER, encode(ElectedController(7, 1)))
        return self

    async def close(self) -> None:
        await self._server.close(drain_s=0.1)

    def _hear(self, call: Call) -> None:
        self.findings.update((each.kind, each.name) for each in unpack(Heartbeat, call.body).findings)
        call.reply(HeartbeatReply(True, 1))

    def _allocate(self, call: Call) -> None:
        call.reply(ProducerIdBlock(next(self._next), 1000))


class Coordinator(CoordinatorProcess[TransactionCoordinator]):
    role = TRANSACTION_COORDINATOR

    async def serve(self, on_built: Callable[[TransactionCoordinator], Awaitable[None]]) -> None:
        config = TransactionCoordinatorConfig(
            node_id=self.node_id, etcd=(), data_dir="unused", rpc_unix=self.socket, hand_over_s=0.1
        )
        await serve(config, self.world, self.lifecycle, on_built)

    @cached_property
    def client(self) -> RpcClient:
        """The one of a gateway, for all its producers."""
        return self.gateway()

    @cached_property
    def storage_node(self) -> RpcClient:
        """The one of a leader that verifies transactions."""
        return self.caller(STORAGE)


class Refused(Exception):
    """A coordinator decides nothing. `args`: its error."""


class TransactionalClient:
    """A producer's requests to its coordinator, in one version."""

    def __init__(self, coordinator: Coordinator, shard: int, transactional_id: str, version: int) -> None:
        self._rpc = coordinator.client
        self._shard, self._id, self._version = shard, transactional_id, version
        self.producer = Producer(-1, -1)
        self.span: SpanContext | None = None
        """The sampled span of its requests."""

    async def init(self, timeout_ms: int = TIMEOUT_MS) -> int:
        answer = await self.ask(InitProducerIdRequest(self._id, timeout_ms), 5)
        if not answer.error_code:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def add(self, topic: str, *indexes: int) -> list[int]:
        wanted = [AddPartitionsToTxnTopic(topic, list(indexes))]
        answer = await self.ask(AddPartitionsToTxnRequest([], self._id, *self.producer, wanted), 3)
        (results,) = answer.results_by_topic_v3_and_below
        return [result.partition_error_code for result in results.results_by_partition]

    async def add_offsets(self, group: str) -> int:
        return int((await self.ask(AddOffsetsToTxnRequest(self._id, *self.producer, group), 4)).error_code)

    async def end(self, *, commit: bool) -> int:
        answer = await self.ask(EndTxnRequest(self._id, *self.producer, commit), self._version)
        if not answer.error_code and self._version >= 5:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def ask(self, request: Any, version: int) -> Any:
        """Raises Refused."""
        key, wire = WIRE[type(request)]
        writer = Writer()
        wire.write_request(writer, request, version)
        asked = Ask(self._shard, key, version, "a client", "/127.0.0.1")
        trace = pack_context(self.span) if self.span is not None else None
        response = await self._rpc.call(ASK_TRANSACTIONS, asked, [writer.buffer], timeout_s=WAIT_S, trace=trace)
        if error := unpack(AskReply, response.body).error:
            raise Refused(error)
        reader = Reader(memoryview(response.payload))
        answer = wire.read_response(reader, version)
        reader.expect_end()
        return answer


class FakeGroupCoordinator:
    """It owns all shards of `__consumer_offsets`. `markers` has what it was sent; `errors` the answers to come, the last of which
    stays. It answers only while `released` is set."""

    def __init__(self, node: StorageCluster) -> None:
        self.node = node
        self.owner = Owner(9, 1)
        self.markers: list[Marker] = []
        self.errors = [0]
        self.released = asyncio.Event()
        self.released.set()
        self._server = RpcServer(
            Hello(GROUP_COORDINATOR, 9, 1, "test", 1, "test-cluster"),
            {WRITE_GROUP_MARKERS: self._written},
            transport=SocketTransport(),
        )

    async def own(self, path: Path, shards: int, owner_epoch: int) -> bytes:
        """The topic's id."""
        address = await self._server.listen(f"unix:{path}/g")
        member = Member(GROUP_COORDINATOR, 9, 1, "this-host", unix_address=address)
        await self.node.write(keys.member(GROUP_COORDINATOR, 9), encode(member))
        topic_id = await self.node.topic(GROUP_TOPIC, partitions=shards, cleanup_policy="compact")
        for index in range(shards):
            await self.node.give(topic_id, index, self.owner, owner_epoch)
        return topic_id

    async def close(self) -> None:
        await self._server.close(drain_s=0.1)

    def _written(self, call: Call) -> Coroutine[Any, Any, None]:
        request = unpack(WriteMarkers, call.body)
        self.markers += request.markers
        return self._answer(call, request)

    async def _answer(self, call: Call, request: WriteMarkers) -> None:
        await self.released.wait()
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        call.reply(AppendReply(tuple(Appended(error) for _ in request.markers)))
