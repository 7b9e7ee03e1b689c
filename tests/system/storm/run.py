"""Groups of one size each over one topic, whose members come and go in an order that a seed draws."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.system.storm.classic import ClassicMember, CooperativeMember
from tests.system.storm.consumer import ConsumerMember
from tests.system.storm.ledger import Ledger
from tests.system.storm.member import Member
from tests.system.storm.reading import Scene
from tests.system.storm.topic import TopicWriter, await_coordinator, set_for_all

KINDS: Mapping[str, Sequence[type[Member]]] = {
    "eager": [ClassicMember],
    "cooperative": [CooperativeMember],
    "consumer": [ConsumerMember],
    "mixed": [CooperativeMember, ConsumerMember],
}
"""Of which members a group consists. Mixed: a classic group is converted while it is in use, and back when its last member of the
consumer protocol goes."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.migration.policy": "bidirectional",
}
PASSES_WITHIN_S = 120.0


@dataclass(frozen=True)
class Size:
    members: int
    """Of each group."""
    partitions: int
    events: int
    """Joins, leaves and crashes in each group, after all have joined."""
    session_ms: int = 3_000
    heartbeat_s: float = 0.3


@dataclass
class Outcome:
    """The outcome of one group."""

    kind: str
    events: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    taken: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    read: int = 0
    redelivered: int = 0
    joined_s: float = 0.0
    """Until all of the first members owned what there is."""
    settled_s: float = 0.0
    """After the last event."""


class Crowd:
    """One group."""

    def __init__(self, kind: str, scene: Scene, size: Size) -> None:
        self.outcome = Outcome(kind)
        self._classes, self._scene, self._size = KINDS[kind], scene, size
        self._chance = scene.chance
        self._members: list[Member] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._number = 0

    @property
    def ledger(self) -> Ledger:
        return self._scene.ledger

    def fill(self) -> None:
        for _ in range(self._size.members):
            self._join()

    async def churn(self) -> None:
        """The next event comes when a number of partitions, now and then none, has found another owner, or at its time."""
        for _ in range(self._size.events):
            goal = self.ledger.taken + self._chance.choice((0, 0, 1, 5, self._size.partitions // 4, self._size.partitions))
            await self._until(lambda goal=goal: self.ledger.taken >= goal, self._chance.uniform(0.0, 2.0), must=False)
            self._strike()

    def _strike(self) -> None:
        lacking = self._size.members - len(self._members)
        what = self._chance.choices(("joined", "left", "crashed"), (1 + lacking, 1, 1))[0]
        if what == "joined":
            self._join()
        else:
            gone = self._members.pop(self._chance.randrange(len(self._members)))
            if what == "left":
                task = asyncio.create_task(gone.leave())
                self._leaving.add(task)
            else:
                gone.crash()
        self.outcome.events[what] += 1

    def _join(self) -> None:
        self._number += 1
        member = self._chance.choice(self._classes)(self._scene, f"{self.outcome.kind}-{self._number}")
        member.start()
        self._members.append(member)

    async def until_whole(self, ends: Sequence[int] | None = None) -> None:
        """Waits until live members own all partitions; with `ends`, until they have read and committed up to there."""

        def whole() -> bool:
            ledger = self.ledger
            return (
                ledger.whole
                and all(task.done() for task in self._leaving)
                and (ends is None or (ledger.read == list(ends) and ledger.committed == list(ends)))
            )

        await self._until(whole, PASSES_WITHIN_S, ends=ends)

    async def go_home(self) -> None:
        """Lets all members leave in order, at the same time; none may complain afterwards."""
        await asyncio.gather(*self._leaving, *(member.leave() for member in self._members))
        self._check()
        ledger = self.ledger
        self.outcome.epochs, self.outcome.taken, self.outcome.ends = len(ledger.epochs), ledger.taken, dict(ledger.ends)
        self.outcome.read, self.outcome.redelivered = sum(ledger.read), ledger.redelivered

    def abandon(self) -> None:
        for member in self._members:
            member.crash()
        for task in self._leaving:
            task.cancel()

    async def _until(
        self, question: Callable[[], bool], within_s: float, *, must: bool = True, ends: Sequence[int] | None = None
    ) -> None:
        deadline = time.monotonic() + within_s
        while not question():
            self._check()
            if time.monotonic() > deadline:
                assert not must, f"{self.outcome.kind}: not within {within_s} s; {self._state(ends)}"
                return
            await asyncio.sleep(0.02)
        self._check()

    def _check(self) -> None:
        assert not self.ledger.complaints, "\n".join(self.ledger.complaints[:5])
        for member in self._members:
            if (failure := member.failure()) is not None:
                raise failure
        for task in self._leaving:
            if task.done():
                task.result()

    def _state(self, ends: Sequence[int] | None) -> str:
        ledger = self.ledger
        orphans = [index for index in range(ledger.partitions) if ledger.owner(index) is None]
        epochs = Counter(member.epoch for member in self._members)
        still_leaving = sum(not task.done() for task in self._leaving)
        told = f"{len(orphans)} partitions without an owner; members by epoch: {dict(epochs)}; {still_leaving} still leave"
        places = zip(ledger.read, ledger.committed, ends or (), strict=False)
        late = {
            index: f"read {read}, committed {committed} of {end} by {ledger.owner(index)}"
            for index, (read, committed, end) in enumerate(places)
            if (read, committed) != (end, end)
        }
        return f"{told}; late: {late}"


async def storm(cluster: LocalCluster, topic: str, kinds: Sequence[str], size: Size, seed: int) -> list[Outcome]:
    """All kinds at once. `cluster` has one storage node: one address serves all. Raises AssertionError with what was wrong."""
    chance = random.Random(seed)
    assert cluster.shape.storage == 1
    ports = tuple(cluster.shape.bootstrap_port(number) + 1 for number in range(1, cluster.shape.gateways + 1))
    of_size = {
        "group.consumer.session.timeout.ms": str(size.session_ms),
        "group.consumer.heartbeat.interval.ms": str(int(size.heartbeat_s * 1000)),
    }
    await set_for_all(ports, SETTINGS | of_size, chance)
    admin = Admin(cluster.bootstrap)
    await asyncio.to_thread(admin.create, topic, size.partitions)
    admin.close()
    await await_coordinator(ports, topic, chance)
    writer = TopicWriter(ports, topic, size.partitions, chance)
    crowds = [Crowd(kind, _scene(cluster, kind, topic, ports, size, chance), size) for kind in kinds]
    await writer.write(list(range(size.partitions)))
    writer.start()
    try:
        await asyncio.gather(*(_play(crowd) for crowd in crowds))
        await writer.stop()
        for crowd in crowds:
            await crowd.until_whole(writer.ends)
            await crowd.go_home()
    finally:
        for crowd in crowds:
            crowd.abandon()
        await writer.stop()
    return [crowd.outcome for crowd in crowds]


async def _play(crowd: Crowd) -> None:
    began = time.monotonic()
    crowd.fill()
    await crowd.until_whole()
    crowd.outcome.joined_s = round(time.monotonic() - began, 2)
    await crowd.churn()
    began = time.monotonic()
    await crowd.until_whole()
    crowd.outcome.settled_s = round(time.monotonic() - began, 2)


def _scene(cluster: LocalCluster, kind: str, topic: str, ports: tuple[int, ...], size: Size, chance: random.Random) -> Scene:
    return Scene(
        group=f"{topic}-{kind}",
        topic=topic,
        partitions=size.partitions,
        ports=ports,
        ledger=Ledger(size.partitions),
        chance=chance,
        session_ms=size.session_ms,
        rebalance_ms=10_000,
        heartbeat_s=size.heartbeat_s,
    )
