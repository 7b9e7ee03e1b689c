"""The elected controller as a leader meets it; the test decides what it answers, and whether it does."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import CONTROLLER, ElectedController, InSync, Member
from libs.rpc.contracts.controller import (
    ALTER_PARTITIONS,
    WITHDRAW,
    AlteredPartition,
    AlterPartitions,
    AlterPartitionsReply,
    NewIsr,
    Withdraw,
    WithdrawReply,
)
from libs.rpc.contracts.ownership import SHARD_OWNER, NamedOwner, ShardOwner
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from tests.storage.cluster import StorageCluster
from tests.storage.fake_follower import image, show

Answer = Callable[[NewIsr], AlteredPartition | None]
"""None: no answer at all."""


class FakeController:
    """Applies what it is asked for, but for what `answer` says instead."""

    def __init__(self, cluster: StorageCluster) -> None:
        self.cluster = cluster
        self.requests: list[NewIsr] = []
        self.withdrawn: list[tuple[bytes, int]] = []
        self.answer: Answer | None = None
        self.owners: dict[tuple[bytes, int], NamedOwner] = {}
        self._server = RpcServer(
            Hello(CONTROLLER, 7, 1, "test", 1, "test-cluster"),
            {ALTER_PARTITIONS: self._alter, WITHDRAW: self._withdraw, SHARD_OWNER: self._name_owner},
            transport=SocketTransport(),
        )

    async def elect(self, path: Path) -> "FakeController":
        address = await self._server.listen(f"unix:{path}/c")
        member = Member(CONTROLLER, 7, 1, "this-host", unix_address=address)
        await self.cluster.write(keys.member(CONTROLLER, 7), encode(member))
        await self.cluster.write(keys.CONTROLLER, encode(ElectedController(7, 1)))
        return self

    async def close(self) -> None:
        await self._server.close(drain_s=0.1)

    def _alter(self, call: Call) -> Coroutine[Any, Any, None]:
        return self._answer_all(call, unpack(AlterPartitions, call.body))

    async def _answer_all(self, call: Call, request: AlterPartitions) -> None:
        answers = []
        for wanted in request.partitions:
            self.requests.append(wanted)
            answer = self.answer(wanted) if self.answer is not None else await self.apply(wanted)
            if answer is None:
                call.fail(7, "nobody knows")
                return
            answers.append(answer)
        call.reply(AlterPartitionsReply(tuple(answers), 0))

    async def apply(self, wanted: NewIsr) -> AlteredPartition:
        state = image(self.cluster).partition(wanted.topic_id, wanted.partition)
        assert state is not None
        isr = tuple([InSync(*member) for member in wanted.isr])
        await show(
            self.cluster, wanted.topic_id, state, index=wanted.partition, isr=isr, partition_epoch=state.partition_epoch + 1
        )
        return AlteredPartition(0, state.leader, state.leader_epoch, state.partition_epoch + 1, wanted.isr)

    def holds(self, wanted: NewIsr, error: int) -> AlteredPartition:
        """Refuses, and tells the state as it is."""
        state = image(self.cluster).partition(wanted.topic_id, wanted.partition)
        assert state is not None
        isr = tuple([tuple(member) for member in state.isr])
        return AlteredPartition(error, state.leader, state.leader_epoch, state.partition_epoch, isr)

    def _withdraw(self, call: Call) -> None:
        request = unpack(Withdraw, call.body)
        self.withdrawn += (*request.partitions, *request.for_now)
        call.reply(WithdrawReply(0))

    def _name_owner(self, call: Call) -> None:
        asked = unpack(ShardOwner, call.body)
        call.reply(self.owners.get((asked.topic_id, asked.partition), NamedOwner("", -1)))
