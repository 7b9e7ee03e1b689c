"""The transaction coordinator as a leader meets it; the test decides what it answers, and when."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import TRANSACTION_COORDINATOR, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.rpc.contracts.transactions import ADD_PARTITIONS, AddPartitions, PartitionsAdded
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from tests.storage.cluster import NODE_ID, StorageCluster

TOPIC_ID = (0x7A).to_bytes(16, "big")


class FakeTransactionCoordinator:
    """It owns the only shard. `errors`: the answers to come, the last of which stays. `held`: it answers only while set."""

    def __init__(self, cluster: StorageCluster) -> None:
        self.cluster = cluster
        self.requests: list[AddPartitions] = []
        self.errors: list[int] = [0]
        self.held = asyncio.Event()
        self.held.set()
        self._server = RpcServer(
            Hello(TRANSACTION_COORDINATOR, 5, 1, "test", 1, "test-cluster"),
            {ADD_PARTITIONS: self._asked},
            transport=SocketTransport(),
        )

    async def own(self, path: Path) -> "FakeTransactionCoordinator":
        address = await self._server.listen(f"unix:{path}/t")
        member = Member(TRANSACTION_COORDINATOR, 5, 1, "this-host", unix_address=address)
        await self.cluster.write(keys.member(TRANSACTION_COORDINATOR, 5), encode(member))
        incarnation = self.cluster.incarnation
        state = PartitionState(
            (Replica(NODE_ID, ""),), NODE_ID, incarnation, 0, 0, (InSync(NODE_ID, incarnation),), owner="5@1", owner_epoch=1
        )
        await self.cluster.write(keys.partition(TOPIC_ID, 0), encode(state))
        await self.cluster.write(keys.topic(TRANSACTION_TOPIC), encode(Topic(TRANSACTION_TOPIC, TOPIC_ID.hex(), 1, True)))
        await self.cluster.leads(TOPIC_ID)
        return self

    async def close(self) -> None:
        self.held.set()
        await self._server.close(drain_s=0.1)

    def _asked(self, call: Call) -> Coroutine[Any, Any, None]:
        request = unpack(AddPartitions, call.body)
        self.requests.append(request)
        return self._answer(call, request)

    async def _answer(self, call: Call, request: AddPartitions) -> None:
        await self.held.wait()
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        call.reply(PartitionsAdded((error,) * len(request.partitions)))
