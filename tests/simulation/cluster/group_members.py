"""The common part of members of both protocols: lives, a coordinator, partitions that they read and commit."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from libs.wire.errors import ErrorCode
from tests.simulation.cluster import kafka_client, kafka_groups
from tests.simulation.cluster.clients import REQUEST_S, RETRIABLE, RETRY_S, Client, key_of
from tests.simulation.cluster.group_promises import NOTHING, Commit, Promises
from tests.simulation.cluster.kafka_client import Disconnected, Link, Partition
from tests.simulation.cluster.world import World

SESSION_S = 6.0
HEARTBEAT_S = 1.0
PAUSE_S = 0.9
COMMIT_S = 1.5
LIFE_S = 25.0
BETWEEN_S = 3.0
STALE_SHARE, BACK_SHARE = 0.04, 0.04

NOWHERE = frozenset(
    map(int, (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
)
"""Ask again, and elsewhere. Of a commit that is answered so nobody says whether it is stored."""
REFUSED = frozenset(
    int(code)
    for code in (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    )
)
FENCED = REFUSED - {int(ErrorCode.REBALANCE_IN_PROGRESS)}


@dataclass(frozen=True, slots=True)
class Group:
    """`alone` says whether nobody but the owner of its shard takes itself for that."""

    name: str
    partitions: Sequence[Partition]
    promises: Promises
    alone: Callable[[], bool]

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.partitions})


class Member:
    """A member of a group. It commits what it reads, and reads on from the committed offset."""

    def __init__(
        self, world: World, group: Group, name: str, host: str, bootstrap: Sequence[tuple[str, int]], instance_id: str | None
    ) -> None:
        self.world, self.group, self.name, self.instance_id = world, group, name, instance_id
        self.promises = group.promises
        self._client = Client(world, host, bootstrap, group.topics)
        self._random = self._client.random = world.stream(name)
        self._link: Link | None = None
        self.member_id = ""
        self.generation = -1
        self.positions: dict[Partition, int] = {}
        """Of what it may read."""
        self._committed: dict[Partition, int] = {}
        self._in_doubt = False
        self._commit_at = 0.0
        self.steady = self.stopping = False
        self.awaited_until = 0.0
        """It fell silent, and its session lasts."""
        self._wanted = asyncio.Event()
        self.operations = 0
        self._afterlives: list[asyncio.Task[None]] = []
        self._sometimes = world.sometimes

    # --- lives

    async def run(self) -> None:
        while not self.stopping:
            until = self.now + self._random.expovariate(1 / LIFE_S)
            self._begin()
            while not self.stopping and (self.steady or self.now < until):
                await self._step()
            await self._end(leaves=self.stopping or self._random.random() < 0.5)
            await self._rest(self._random.expovariate(1 / BETWEEN_S))
        if self._afterlives:
            await asyncio.wait(self._afterlives)

    def be_steady(self) -> None:
        """From here on it dies no more."""
        self.steady = True
        self._wanted.set()

    def stop(self) -> None:
        self.stopping = True
        self._wanted.set()

    async def _think(self) -> None:
        """Between two steps: now and then longer than its session lasts, unless it is steady."""
        pause_s = self._random.expovariate(1 / PAUSE_S)
        await asyncio.sleep(min(pause_s, SESSION_S / 3) if self.steady else pause_s)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()

    async def _end(self, *, leaves: bool) -> None:
        """The member leaves or falls silent. A silent member may speak again."""
        if leaves:
            self._sometimes("a member left")
            await self._commit_all()
            await self._leave()
        else:
            self._sometimes("a static member fell silent" if self.instance_id else "a member fell silent")
            self.awaited_until = self.now + SESSION_S - HEARTBEAT_S if self.positions else 0.0
            if self.positions and self._random.random() < 0.6:
                self._afterlives.append(asyncio.get_running_loop().create_task(self._speak_again(*self._identity())))
        self._drop()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _identity(self) -> tuple[str, int, dict[Partition, int]]:
        return self.member_id, self.generation, dict(self.positions)

    async def _speak_again(self, member_id: str, generation: int, positions: dict[Partition, int]) -> None:
        """A member that was taken for dead commits: this is refused, and its earlier commits are not."""
        await asyncio.sleep(self._random.uniform(0.0, 2 * SESSION_S))
        if self.steady:
            return
        commit = self.promises.commit_begins(generation, positions)
        request = kafka_groups.commit(self.group.name, generation, member_id, self.instance_id, positions)
        try:
            answer = await kafka_groups.ask(await self._client.any_gateway(), request, REQUEST_S)
        except Disconnected:
            return
        fenced = self._settle(commit, answer) & FENCED
        self._sometimes("a dead member's commit was refused", bool(fenced))

    @property
    def joining(self) -> bool:
        """Whether the member is not yet in the generation of its group."""
        raise NotImplementedError

    def _begin(self) -> None:
        raise NotImplementedError

    async def _step(self) -> None:
        """Some of its work; it lasts a while."""
        raise NotImplementedError

    async def _leave(self) -> None:
        raise NotImplementedError

    def _drop(self) -> None:
        """Stops reading a partition."""
        self.positions.clear()
        self._committed.clear()
        self._in_doubt = False

    @property
    def now(self) -> float:
        return self.world.loop.time()

    # --- the coordinator

    async def _ask(self, request: Any, timeout_s: float = REQUEST_S) -> Any:
        """Raises Disconnected."""
        self.operations += 1
        if self._link is None or self._link.lost:
            address = await kafka_groups.coordinator(await self._client.any_gateway(), self.group.name, REQUEST_S)
            self._link = await self._client.own_link(address)
        return await kafka_groups.ask(self._link, request, timeout_s)

    async def _pause(self, error: int = 0) -> None:
        """Before it asks again."""
        if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE) and self._link is not None:
            self._link.close()
            self._link = None
        await asyncio.sleep(RETRY_S * self._random.uniform(1, 3))

    # --- offsets

    async def _find_positions(self, partitions: Iterable[Partition], member_id: str | None = None, epoch: int = -1) -> int:
        """Fetches the positions of new partitions. Returns the error; -1 if nobody answered."""
        wanted = [partition for partition in partitions if partition not in self.positions]
        if not wanted:
            return 0
        begun = self.promises.turn()
        try:
            answer = await self._ask(kafka_groups.fetch(self.group.name, wanted, member_id, epoch))
        except Disconnected:
            await self._pause()
            return -1
        error, offsets = kafka_groups.fetched(answer)
        if error:
            await self._pause(error)
            return error
        self.promises.fetched(begun, offsets)
        for partition, offset in offsets.items():
            self._committed[partition] = offset
            self.positions[partition] = max(offset, 0)
        return 0

    async def _commit_when_due(self) -> int:
        if self.now < self._commit_at:
            return 0
        self._commit_at = self.now + self._random.uniform(0.5, 1.5) * COMMIT_S
        draw = self._random.random()
        if draw < STALE_SHARE and self.positions and self.generation > 0:
            await self._commit_stale()
        elif draw < STALE_SHARE + BACK_SHARE and self.positions and not self.steady:
            partition = self._random.choice(sorted(self.positions))
            self.positions[partition] = max(0, self.positions[partition] - self._random.randrange(20))
            self._sometimes("a client committed an older offset")
        return await self._commit_all()

    async def _commit_all(self) -> int:
        """Commits new positions. Returns the worst error; -1 if nobody answered."""
        fresh = {partition: at for partition, at in self.positions.items() if self._committed.get(partition) != at}
        fresh = {partition: at for partition, at in fresh.items() if at or self._committed.get(partition, NOTHING) != NOTHING}
        if not fresh:
            return 0
        self._sometimes("a commit whose fate is not known was sent again", self._in_doubt)
        commit = self.promises.commit_begins(self.generation, fresh)
        request = kafka_groups.commit(self.group.name, self.generation, self.member_id, self.instance_id, fresh)
        try:
            answer = await self._ask(request)
        except Disconnected as failure:
            self._in_doubt = self._in_doubt or failure.sent
            return -1
        errors = self._settle(commit, answer)
        self._in_doubt = bool(errors & NOWHERE)
        if errors <= {0}:
            self._committed.update(fresh)
        worst = max(errors)
        if worst in NOWHERE:
            await self._pause(worst)
        return worst

    async def _commit_stale(self) -> None:
        generation = self.generation - 1
        commit = self.promises.commit_begins(generation, self.positions)
        try:
            answer = await self._ask(
                kafka_groups.commit(self.group.name, generation, self.member_id, self.instance_id, self.positions)
            )
        except Disconnected:
            return
        errors = self._settle(commit, answer, stale=True)
        self._sometimes("a commit of an old generation was refused", bool(errors & REFUSED))

    def _settle(self, commit: Commit, answer: Any, *, stale: bool = False) -> set[int]:
        errors = kafka_groups.commit_errors(answer)
        for partition, error in errors.items():
            if not error:
                self.promises.accepted(commit, partition, stale=stale)
            elif error in REFUSED:
                self.promises.refused(commit, partition)
            elif error not in NOWHERE:
                said = ErrorCode(error).name
                self.world.violation(f"8: group {self.group.name}: a commit at {key_of(partition)} is answered {said}")
        return set(errors.values())

    # --- reading

    async def _read(self) -> None:
        """From one of the brokers that lead what it has."""
        client = self._client
        leaders = client.metadata.leaders
        brokers = sorted({leaders[partition][0] for partition in self.positions if partition in leaders})
        if len(brokers) == 0:
            await client.refresh()
            return
        node = self._random.choice(brokers)
        asked = {p: at for p, at in self.positions.items() if p in leaders and leaders[p][0] == node}
        self.operations += 1
        try:
            answers = await kafka_client.fetch(await client.broker(node), asked, REQUEST_S, max_wait_ms=100, max_bytes=1 << 20)
        except Disconnected:
            await client.refresh()
            return
        stale = False
        for answer in answers:
            partition = (str(answer.topic), answer.index)
            if answer.error:
                stale = True
                if answer.error not in RETRIABLE:
                    what = f"{key_of(partition)} at {asked[partition]}: a member is told {ErrorCode(answer.error).name}"
                    self.world.violation(f"8: group {self.group.name}: {what}", loss_of=key_of(partition))
            elif partition in self.positions:
                self.positions[partition] = max(asked[partition], kafka_client.end_of(answer.records))
        if stale or len({leaders.get(partition, (-1,))[0] for partition in self.positions}) > len(brokers):
            await client.refresh()
