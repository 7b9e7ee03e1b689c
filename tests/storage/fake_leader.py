"""A leader node that answers pulls as its contract says, from batches in memory, and lies when a test asks it to."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.rpc.contracts.replication import PROGRESS, PULL, MadeDurable, Progress, Pull, Pulled, PulledFrom, PullReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.record_batches.batches import BatchHeader, patch
from tests.storage.cluster import NODE_ID, StorageCluster, batch

Key = tuple[bytes, int]
Lie = Callable[[PulledFrom, Pulled, bytes], tuple[Pulled, bytes]]


@dataclass
class LeaderLog:
    epoch: int
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    batches: list[bytes] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    error: int = 0
    bytes_max: int = 1 << 30

    def append(self, *values: bytes, raw: bytes | None = None, at: int | None = None, committed: bool = True) -> bytes:
        """`at`: after a gap. Returns the batch as it is stored."""
        content = bytearray(raw if raw is not None else batch(*values))
        base = self.end if at is None else at
        patch(memoryview(content), base, self.epoch)
        if not self.epochs or self.epochs[-1][0] < self.epoch:
            self.epochs.append((self.epoch, base))
        self.batches.append(bytes(content))
        self.end = BatchHeader.at(content).last_offset + 1
        if committed:
            self.high_watermark = self.end
        return bytes(content)

    def elected(self, epoch: int) -> None:
        self.epoch = epoch
        self.epochs.append((epoch, self.end))

    def end_of(self, epoch: int) -> tuple[int, int]:
        known = [epoch for epoch, _ in self.epochs]
        if not known or epoch < 0 or epoch > known[-1]:
            return -1, -1
        if epoch == known[-1]:
            return epoch, self.end
        slot = bisect_right(known, epoch)
        return (known[slot - 1], self.epochs[slot][1]) if slot else (epoch, self.epochs[0][1])

    def answer(self, where: PulledFrom) -> tuple[Pulled, bytes]:
        def pulled(error: int = 0, length: int = 0, diverging: tuple[int, int] = (-1, -1)) -> Pulled:
            ends = self.high_watermark, self.start, self.end
            return Pulled(where.topic_id, where.partition, error, self.epoch, *ends, (), length, *diverging)

        if self.error:
            return pulled(self.error), b""
        if where.leader_epoch != self.epoch:
            return pulled(74 if where.leader_epoch < self.epoch else 75), b""
        if not self.start <= where.fetch_offset <= self.end:
            return pulled(1), b""
        if where.last_fetched_epoch >= 0:
            epoch, end = self.end_of(where.last_fetched_epoch)
            if epoch < 0:
                return pulled(1), b""
            if epoch < where.last_fetched_epoch or end < where.fetch_offset:
                return pulled(diverging=(epoch, end)), b""
        found = b"".join(batch for batch in self.batches if BatchHeader.at(batch).last_offset >= where.fetch_offset)[
            : self.bytes_max
        ]
        return pulled(length=len(found)), found


class FakeLeader:
    """Storage node `node_id`. `pulls` and `progress` are what it was told."""

    def __init__(self, cluster: StorageCluster, sockets: Path, node_id: int = 2, incarnation: int = 1) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.incarnation = incarnation
        self.logs: dict[Key, LeaderLog] = {}
        self.pulls: list[Pull] = []
        self.progress: list[MadeDurable] = []
        self.lies: list[Lie] = []
        self.refusals: list[int] = []
        self._address = f"unix:{sockets}/leader-{node_id}"
        self._positions: dict[Key, PulledFrom] = {}
        self._session = (0, -1)
        self._heard: dict[Key, Pulled] = {}
        self._changed = asyncio.Event()
        self._server: RpcServer | None = None

    async def start(self, incarnation: int = 0) -> None:
        self.incarnation = incarnation or self.incarnation
        hello = Hello("storage", self.node_id, self.incarnation, "test", 1, "test-cluster")
        self._session = (0, -1)
        self._server = RpcServer(lambda: hello, {PULL: self._pull, PROGRESS: self._on_progress}, transport=SocketTransport())
        await self._server.listen(self._address)
        member = Member("storage", self.node_id, self.incarnation, "this-host", unix_address=self._address)
        await self.cluster.write(keys.member("storage", self.node_id), encode(member))

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            self._changed.set()
            await server.close(drain_s=0.0)

    async def leads(
        self,
        topic: bytes,
        *,
        epoch: int,
        index: int = 0,
        log: LeaderLog | None = None,
        adding: tuple[int, ...] = (),
        paced: bool = False,
    ) -> LeaderLog:
        """The state says so from now on, and the node under test follows."""
        held = log if log is not None else self.logs.get((topic, index)) or LeaderLog(epoch)
        if held.epoch != epoch:
            held.elected(epoch)
        self.logs[topic, index] = held
        replicas = Replica(NODE_ID, ""), Replica(self.node_id, "")
        isr = (InSync(self.node_id, self.incarnation),)
        state = PartitionState(replicas, self.node_id, self.incarnation, epoch, epoch, isr, adding=adding, paced=paced)
        await self.cluster.write(keys.partition(topic, index), encode(state))
        self.changed()
        return held

    def changed(self) -> None:
        self._changed.set()

    def durable(self, topic: bytes, index: int = 0) -> int:
        """As the follower told it, by a Progress."""
        return max(
            (report.durable_offset for report in self.progress if (report.topic_id, report.partition) == (topic, index)),
            default=-1,
        )

    def _on_progress(self, call: Call) -> None:
        self.progress += unpack(Progress, call.body).partitions

    def _pull(self, call: Call) -> Coroutine[Any, Any, None] | None:
        pull = unpack(Pull, call.body)
        self.pulls.append(pull)
        if self.refusals:
            call.fail(self.refusals.pop(0), "refused")
            return None
        number, sequence = self._session
        if pull.sequence == 0 and pull.session > number:
            self._positions.clear()
            self._heard.clear()
        elif (pull.session, pull.sequence) != (number, sequence + 1):
            call.fail(70, "begin another")
            return None
        self._session = pull.session, pull.sequence
        for where in pull.partitions:
            self._positions[where.topic_id, where.partition] = where
            self._heard.pop((where.topic_id, where.partition), None)
        for key in pull.dropped:
            self._positions.pop(key, None)
        self._changed.set()  # who is parked lets go
        return self._answer(call, pull)

    async def _answer(self, call: Call, pull: Pull) -> None:
        deadline = asyncio.get_running_loop().time() + pull.max_wait_ms / 1000
        while call.open and self._server is not None and self._session == (pull.session, pull.sequence):
            self._changed.clear()
            answers = [
                (pulled, content) for pulled, content in map(self._of, list(self._positions.values())) if pulled is not None
            ]
            left_s = deadline - asyncio.get_running_loop().time()
            if answers or left_s <= 0:
                call.reply(PullReply(tuple(pulled for pulled, _ in answers)), [content for _, content in answers if content])
                return
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                continue

    def _of(self, where: PulledFrom) -> tuple[Pulled | None, bytes]:
        key = where.topic_id, where.partition
        before = self._heard.get(key)
        if before is not None and (before.error or before.inline_length or before.diverging_epoch >= 0):
            return None, b""
        held = self.logs.get(key)
        pulled, content = held.answer(where) if held is not None else (Pulled(*key, 100), b"")
        if self.lies:
            pulled, content = self.lies.pop(0)(where, pulled, content)
        if pulled == before:
            return None, b""
        self._heard[key] = pulled
        return pulled, content
