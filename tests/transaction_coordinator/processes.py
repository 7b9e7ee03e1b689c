"""Whole transaction coordinator processes in this one, over a real storage node; the test plays controller and gateway."""

import asyncio
import itertools
from pathlib import Path
from random import Random
from typing import Any

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import (
    CONTROLLER,
    TRANSACTION_COORDINATOR,
    ElectedController,
    InSync,
    Member,
    PartitionState,
    Replica,
)
from libs.cluster.shard_owners import Owner
from libs.coordinator.states import State
from libs.rpc.call import Call
from libs.rpc.client import Hello, RpcClient
from libs.rpc.contracts.controller import ALLOCATE_PRODUCER_IDS, HEARTBEAT, HeartbeatReply, ProducerIdBlock
from libs.rpc.contracts.coordinators import ASK_TRANSACTIONS, Ask
from libs.rpc.contracts.coordinators import AskReply as Answered
from libs.rpc.schema import unpack
from libs.rpc.server import RpcServer
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import Environment, Identity
from libs.wire.api_keys import ApiKey
from libs.wire.messages import add_partitions_to_txn, end_txn, init_producer_id
from libs.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from libs.wire.messages.end_txn import EndTxnRequest
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from libs.wire.primitives import Reader, Writer
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.process import serve
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster
from tests.support.polling import until

TIMEOUT_MS = 60_000
WIRE: dict[type, tuple[int, Any]] = {
    InitProducerIdRequest: (ApiKey.INIT_PRODUCER_ID, init_producer_id),
    AddPartitionsToTxnRequest: (ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_to_txn),
    EndTxnRequest: (ApiKey.END_TXN, end_txn),
}
_incarnations = itertools.count(100)


class ProducerIdController:
    """The elected controller, which hands out blocks of producer ids."""

    def __init__(self) -> None:
        self._next = itertools.count(1000, 1000)
        self._server = RpcServer(
            Hello(CONTROLLER, 7, 1, "test", 1, "test-cluster"),
            {ALLOCATE_PRODUCER_IDS: self._allocate, HEARTBEAT: lambda call: call.reply(HeartbeatReply(True, 1))},
            transport=SocketTransport(),
        )

    async def elect(self, node: StorageCluster, path: Path) -> "ProducerIdController":
        address = await self._server.listen(f"unix:{path}/k")
        await node.write(keys.member(CONTROLLER, 7), encode(Member(CONTROLLER, 7, 1, "this-host", unix_address=address)))
        await node.write(keys.CONTROLLER, encode(ElectedController(7, 1)))
        return self

    async def close(self) -> None:
        await self._server.close(drain_s=0.1)

    def _allocate(self, call: Call) -> None:
        call.reply(ProducerIdBlock(next(self._next), 1000))


class Coordinator:
    """One life of a process."""

    def __init__(self, store: MemoryStore, sockets: Path, node_id: int) -> None:
        self.node_id = node_id
        self.incarnation = next(_incarnations)
        self.owner = Owner(node_id, self.incarnation)
        self.lifecycle = Lifecycle()
        self.address = f"unix:{sockets}/t{node_id}-{self.incarnation}"
        self.config = TransactionCoordinatorConfig(
            node_id=node_id, etcd=(), data_dir="unused", rpc_unix=self.address.removeprefix("unix:"), hand_over_s=0.1
        )
        self.store = store.peer()
        self.world = Environment(
            identity=Identity(TRANSACTION_COORDINATOR, node_id, self.incarnation, "this-host", "test"),
            clock=SystemClock(),
            store=self.store,
            transport=SocketTransport(),
            random=Random(7),
            peers=None,
        )
        self._built: TransactionCoordinator | None = None
        self._client: RpcClient | None = None

    @property
    def service(self) -> TransactionCoordinator:
        assert self._built is not None
        return self._built

    async def start(self) -> "Coordinator":
        async def built(coordinator: TransactionCoordinator) -> None:
            self._built = coordinator

        async with asyncio.timeout(WAIT_S):
            await serve(self.config, self.world, self.lifecycle, built)
        return self

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()
        assert await self.lifecycle.drain()

    def gateway(self) -> RpcClient:
        if self._client is None:
            hello = Hello("gateway", 1, 1, "test", 1, "test-cluster")
            expected = (TRANSACTION_COORDINATOR, self.node_id)
            self._client = RpcClient(self.address, hello, SocketTransport(), expected=expected)
        return self._client

    async def serves(self, *indexes: int) -> None:
        def all_serve() -> bool:
            owned = self.service.shards.owned
            return all(index in owned and owned[index].state is State.SERVING for index in indexes)

        await until(all_serve)


class TransactionalClient:
    """A producer's requests to its coordinator, in one version."""

    def __init__(self, coordinator: Coordinator, shard: int, transactional_id: str, version: int) -> None:
        self._rpc = coordinator.gateway()
        self._shard, self._id, self._version = shard, transactional_id, version
        self.producer = Producer(-1, -1)

    async def init(self, timeout_ms: int = TIMEOUT_MS) -> int:
        answer = await self.ask(InitProducerIdRequest(self._id, timeout_ms), 5)
        if not answer.error_code:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def add(self, topic: str, *indexes: int) -> list[int]:
        wanted = [AddPartitionsToTxnTopic(topic, list(indexes))]
        answer = await self.ask(AddPartitionsToTxnRequest(self._id, *self.producer, wanted), 3)
        (results,) = answer.results_by_topic_v3_and_below
        return [result.partition_error_code for result in results.results_by_partition]

    async def end(self, *, commit: bool) -> int:
        answer = await self.ask(EndTxnRequest(self._id, *self.producer, commit), self._version)
        if not answer.error_code and self._version >= 5:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def ask(self, request: Any, version: int) -> Any:
        key, wire = WIRE[type(request)]
        writer = Writer()
        wire.write_request(writer, request, version)
        asked = Ask(self._shard, key, version, "a client", "/127.0.0.1")
        response = await self._rpc.call(ASK_TRANSACTIONS, asked, [writer.buffer], timeout_s=WAIT_S)
        error = unpack(Answered, response.body).error
        assert not error, error
        reader = Reader(memoryview(response.payload))
        answer = wire.read_response(reader, version)
        reader.expect_end()
        return answer


async def give(node: StorageCluster, topic: bytes, index: int, owner: Owner | None, owner_epoch: int) -> None:
    """The partition states that the controller writes."""
    alive = InSync(NODE_ID, node.incarnation)
    state = PartitionState(
        (Replica(NODE_ID, ""),),
        NODE_ID,
        node.incarnation,
        0,
        owner_epoch,
        (alive,),
        str(owner) if owner is not None else "",
        owner_epoch,
    )
    await node.write(keys.partition(topic, index), encode(state))
