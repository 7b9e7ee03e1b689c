"""Offset commits, and a group of a hundred members that one more joins: the server's part of it, clients do next to nothing.

Clients here look for news ten times a second, where real ones do every three or five seconds: what is measured would drown in
that pause. `__consumer_offsets` is synced in Penstock whatever the durability of the rest; in Kafka only with `synced`.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tests.bench import group_frames, load
from tests.bench.cases import Case, Measured, unique
from tests.bench.coordinators import COMING, commit, coordinator_of
from tests.bench.sides import Side

MEMBERS = 100
BEAT_S = 0.1
STABLE_WITHIN_S = 60.0
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79

T = TypeVar("T")


def group_cases() -> list[Case]:
    return [
        commits_case("commits-1conn", 1, mark="≥ 1.0"),
        commits_case("commits-16conn", 16, mark="≥ 1.0"),
        commit_latency_case("commits-p99-200rps", 200),
        stable_case("classic-group-of-100-stable", _Classic),
        stable_case("consumer-group-of-100-stable", _Consumer),
    ]


def replicated_group_cases() -> list[Case]:
    return [
        commits_case("replicated-commits-1conn", 1, mark="≥ 1.0"),
        commits_case("replicated-commits-16conn", 16, mark="≥ 1.0"),
        commit_latency_case("replicated-commits-p99-200rps", 200),
    ]


@dataclass
class Commits:
    topic: str
    targets: list[tuple[load.Address, bytes]]


def _prepared_commits(side: Side, name: str, connections: int) -> Commits:
    topic = unique(name)
    side.create_topic(topic, 1)
    targets = [commit(side, f"{topic}-{number}", topic) for number in range(connections)]
    return Commits(topic, targets)


def commits_case(name: str, connections: int, *, mark: str) -> Case:
    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Commits)
        position = group_frames.commit_error_position(prepared.topic)
        found = load.produce(prepared.targets, position, 1, 1, seconds, 1 << 40)
        return Measured(found.requests_per_s, found.requests)

    return Case(
        name=name,
        unit="commits/s",
        higher_is_better=True,
        settings=f"raw OffsetCommit of one partition, {connections} connection(s) with a group each, one in flight on each",
        prepare=lambda side: _prepared_commits(side, name, connections),
        run=run,
        clean=_delete_topic,
        mark=mark,
    )


def commit_latency_case(name: str, rate: float) -> Case:
    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Commits)
        [(address, frame)] = prepared.targets
        found = load.latency_at(address, frame, group_frames.commit_error_position(prepared.topic), rate, max(seconds, 5.0))
        return Measured(found.p99_ms, found.requests)

    return Case(
        name=name,
        unit="ms (p99)",
        higher_is_better=False,
        settings=f"raw OffsetCommit of one partition, open loop at {rate:.0f} requests/s, one connection",
        prepare=lambda side: _prepared_commits(side, name, 1),
        run=run,
        clean=_delete_topic,
        mark="≤ 1.0",
    )


def _delete_topic(side: Side, prepared: object) -> None:
    assert isinstance(prepared, Commits)
    side.delete_topic(prepared.topic)


# -- groups of many members ---------------------------------------------------------------------------------------------------


class _Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: load.Address) -> "_Connection":
        return cls(*await asyncio.open_connection(*address))

    async def ask(self, frame: bytes, read: Callable[[bytes], T]) -> T:
        self._writer.write(frame)
        head = await self._reader.readexactly(4)
        return read(head + await self._reader.readexactly(struct.unpack(">i", head)[0]))

    def close(self) -> None:
        self._writer.close()


@dataclass
class _Group:
    """What all members see of each other: `stable_at` holds each generation's or epoch's last arrival."""

    name: str
    topic: str
    address: load.Address
    wanted: int = 0
    settled: dict[str, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, member: str, epoch: int) -> None:
        self.settled[member] = epoch
        self.changed.set()

    async def stable(self, least_epoch: int) -> int:
        """Until all have settled in one generation that is newer. Returns it."""
        async with asyncio.timeout(STABLE_WITHIN_S):
            while True:
                epochs = set(self.settled.values())
                if len(self.settled) == self.wanted and len(epochs) == 1 and min(epochs) > least_epoch:
                    return min(epochs)
                self.changed.clear()
                await self.changed.wait()


class _Classic:
    protocol = "classic"

    def __init__(self, group: _Group, number: int) -> None:
        self._group = group
        self._key = f"m{number}"
        self._member_id = ""

    async def live(self) -> None:
        """Joins again and again; cancelled, it leaves."""
        group, connection = self._group, await _Connection.to(self._group.address)
        try:
            while True:
                generation = await self._join(connection)
                if generation is None:
                    continue
                group.settle(self._key, generation)
                beat = group_frames.heartbeat_frame(group.name, generation, self._member_id)
                while await self._is_quiet(connection, beat):
                    pass
        finally:
            connection.close()
            group.settled.pop(self._key, None)
            other = await _Connection.to(group.address)
            await other.ask(group_frames.leave_frame(group.name, self._member_id), group_frames.error_after_throttle)
            other.close()

    @staticmethod
    async def _is_quiet(connection: _Connection, beat: bytes) -> bool:
        if await connection.ask(beat, group_frames.error_after_throttle):
            return False
        await asyncio.sleep(BEAT_S)
        return True

    async def _join(self, connection: _Connection) -> int | None:
        group = self._group
        joined = await connection.ask(group_frames.join_frame(group.name, self._member_id), group_frames.joined)
        if joined.error == MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            joined = await connection.ask(group_frames.join_frame(group.name, self._member_id), group_frames.joined)
        if joined.error in (*COMING, REBALANCE_IN_PROGRESS):
            await asyncio.sleep(BEAT_S)
            return None
        if joined.error:
            raise load.BenchError(f"JoinGroup answered error {joined.error}")
        members = joined.members if joined.leader == joined.member_id else ()
        sync = group_frames.sync_frame(group.name, joined.generation, joined.member_id, members)
        error = await connection.ask(sync, group_frames.error_after_throttle)
        if error and error not in (*COMING, REBALANCE_IN_PROGRESS):
            raise load.BenchError(f"SyncGroup answered error {error}")
        return None if error else joined.generation


class _Consumer:
    protocol = "consumer"

    def __init__(self, group: _Group, number: int) -> None:
        self._group = group
        self._member_id = f"member-{number}-{time.time_ns()}"

    async def live(self) -> None:
        """Revokes at once what it is told to; cancelled, it leaves."""
        group, connection = self._group, await _Connection.to(self._group.address)
        epoch, owned, fresh = 0, {}, True
        try:
            while True:
                topic = group.topic if epoch == 0 else None
                told = {} if epoch == 0 else owned if fresh else None
                frame = group_frames.consumer_heartbeat_frame(group.name, self._member_id, epoch, topic, told)
                answer = await connection.ask(frame, group_frames.beaten)
                if answer.error in COMING:
                    await asyncio.sleep(BEAT_S)
                    continue
                if answer.error:
                    raise load.BenchError(f"ConsumerGroupHeartbeat answered error {answer.error}")
                fresh = answer.assigned is not None and answer.assigned != owned
                owned, epoch = answer.assigned if answer.assigned is not None else owned, answer.epoch
                group.settle(self._member_id, epoch)
                if not fresh:
                    await asyncio.sleep(BEAT_S)
        finally:
            group.settled.pop(self._member_id, None)
            connection.close()
            other = await _Connection.to(group.address)
            await other.ask(
                group_frames.consumer_heartbeat_frame(group.name, self._member_id, -1, None, None), group_frames.beaten
            )
            other.close()


async def _one_more(side: Side, make: type[_Classic] | type[_Consumer], topic: str, times: int) -> float:
    """Seconds from a member's first request until everybody, it too, is in the generation that it brought about: the median."""
    name = unique(f"stable-{make.protocol}")
    group = _Group(name, topic, coordinator_of(side, name), MEMBERS)
    tasks = [asyncio.create_task(make(group, number).live()) for number in range(MEMBERS)]
    took = []
    try:
        epoch = await _while_alive(tasks, group.stable(0))
        for number in range(times):
            group.wanted += 1
            began = time.perf_counter()
            another = asyncio.create_task(make(group, MEMBERS + number).live())
            epoch = await _while_alive([*tasks, another], group.stable(epoch))
            took.append(time.perf_counter() - began)
            group.wanted -= 1
            another.cancel()
            await asyncio.wait([another])
            epoch = await _while_alive(tasks, group.stable(epoch))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return sorted(took)[len(took) // 2]


async def _while_alive(tasks: "list[asyncio.Task[None]]", stable: "asyncio.coroutines.Coroutine[None, None, int]") -> int:
    waiting = asyncio.ensure_future(stable)
    done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    if waiting not in done:
        waiting.cancel()
        done.pop().result()
        raise AssertionError("members live until they are cancelled")
    return waiting.result()


def stable_case(name: str, make: type[_Classic] | type[_Consumer]) -> Case:
    def prepare(side: Side) -> Commits:
        topic = unique(name)
        side.create_topic(topic, MEMBERS + 1)
        return Commits(topic, [])

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Commits)
        return Measured(asyncio.run(_one_more(side, make, prepared.topic, 3)) * 1e3, 3)

    return Case(
        name=name,
        unit="ms",
        higher_is_better=False,
        settings=f"{make.protocol} protocol, {MEMBERS} members that look for news each {BEAT_S * 1e3:.0f} ms, one more joins",
        prepare=prepare,
        run=run,
        clean=_delete_topic,
        mark="≤ 1.0",
        per="join",
    )
