"""What every client of the simulation does: it owns partitions for a while, fetches where to begin, and commits."""

from collections.abc import Callable
from typing import Any, Protocol

from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from services.group_coordinator.core.topics_view import TopicsView
from tests.group_coordinator.conversion.clients import Partition, by_topic
from tests.group_coordinator.named_topics import topic_id
from tests.simulation.groups.bench import Bench
from tests.simulation.groups.lines import Call, Line, Lines

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 15_000
"""Longer than a session: who hears nothing for a session has stopped by itself."""
BEAT_MS = 1500
RETRY_MS = 150
LOST = (22, 25, 82, 110)
"""Whoever hears one of them has nothing any more."""


class World(Protocol):
    bench: Bench
    lines: Lines

    @property
    def topics(self) -> TopicsView: ...

    def owns(self, client: "Client") -> None:
        """It began to read."""
        ...

    def next_offset(self) -> int: ...


class Client:
    """One life after the other. `owned` is what it reads, as long as its lease runs."""

    kind = ""

    def __init__(self, world: World, number: int, instance: str | None = None, *, in_order: bool = False) -> None:
        self.world = world
        self.bench = world.bench
        self.random = world.bench.random
        self.number = number
        self.instance = instance
        self.line = Line(world.lines, f"{self.kind} {number}", in_order=in_order)
        self.owned: frozenset[Partition] = frozenset()
        self.lease_ms = 0.0
        """Until then nobody else may have been given what it owns, whatever it did not hear."""
        self.life = 0
        self.runs = False
        self.retired = False
        """Another one runs in its place."""
        self.paused_ms = 0.0
        self.waits: Call | None = None
        """For the answer to what it asked about its membership."""
        self.commits = True

    def __str__(self) -> str:
        return self.line.name

    @property
    def reads(self) -> frozenset[Partition]:
        return self.owned if self.bench.now_ms < self.lease_ms else frozenset()

    # -- a life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if not self.runs and not self.retired:
            self.runs = True
            self.life += 1
            self.forget()
            self.bench.tell(f"{self} starts")
            self._later(self.random.random() * 500, self._tick)
            self._later(self.random.random() * 2000, self._commit_now_and_then)

    def crash(self) -> None:
        """All that it knew is gone, and nobody was told."""
        if self.runs:
            self.bench.tell(f"{self} ends")
            self.runs, self.waits = False, None
            self.line.reset()
            self.forget()

    def stop(self) -> None:
        """As it should."""
        if self.runs:
            self.leave()
            self.crash()

    def lose_connection(self) -> None:
        self.line.reset()
        waits, self.waits = self.waits, None
        if waits is not None and not waits.done:
            self._later(self.random.choice((1, 50, 400)), self.world.lines.broken, waits)

    def _later(self, ms: float, what: Callable[..., None], *args: object) -> None:
        self.bench.later(ms, self._if_alive, self.life, what, args)

    def _if_alive(self, life: int, what: Callable[..., None], args: tuple[object, ...]) -> None:
        if life == self.life and self.runs:
            if self.bench.now_ms < self.paused_ms:
                self.bench.later(self.paused_ms - self.bench.now_ms, self._if_alive, life, what, args)
            else:
                what(*args)

    def _tick(self) -> None:
        if self.owned and self.bench.now_ms >= self.lease_ms:
            self.bench.tell(f"{self} heard nothing for too long, and stops reading")
            self.lease_over()
        self.beat()
        self._later(BEAT_MS * (0.7 + 0.6 * self.random.random()), self._tick)

    def ask(self, request: Any, version: int, hears: Callable[[Call, int, Any], None], ms_max: int = 4000) -> Call:
        life = self.life

        def heard(error: int, reply: Any) -> None:
            self._if_alive(life, hears, (call, error or getattr(reply, "error_code", 0), reply))

        call = self.line.ask(request, version, heard, ms_max)
        return call

    def own(self, owned: frozenset[Partition]) -> None:
        new = owned - self.owned
        if owned != self.owned:
            named = ", ".join(f"{topic}{numbers}" for topic, numbers in by_topic(owned).items())
            self.bench.tell(f"{self} owns {named or 'nothing'}")
        self.owned = owned
        if new:
            self.world.owns(self)
            self._later(self.random.random() * 50, self._fetch, new)

    # -- what protocols fill in -------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Everything of the former life."""
        self.owned = frozenset()

    def beat(self) -> None:
        """Every `BEAT_MS`, about."""

    def leave(self) -> None:
        """Nobody waits for the answer."""

    def lease_over(self) -> None: ...

    @property
    def is_calm(self) -> bool:
        """Nothing is to be done, as far as it knows."""
        return self.waits is None

    @property
    def membership(self) -> tuple[str, int]:
        """Member id and generation or epoch, as of now."""
        return "", -1

    # -- offsets ----------------------------------------------------------------------------------------------------------

    def _commit_now_and_then(self) -> None:
        if self.commits:
            self.commit()
        self._later(500 + 2500 * self.random.random(), self._commit_now_and_then)

    def commit(self) -> None:
        owned = sorted(self.reads)
        if owned:
            which = self.random.sample(owned, min(len(owned), self.random.randint(1, 2)))
            self.commit_these(which, *self.membership)

    def commit_these(self, which: list[Partition], member_id: str, generation: int) -> None:
        topics = [
            OffsetCommitRequestTopic(
                topic_id(topic),
                topic,
                [OffsetCommitRequestPartition(number, self.world.next_offset(), -1, "") for number in numbers],
            )
            for topic, numbers in by_topic(which).items()
        ]
        version = self.random.choice((9, 10))
        self.ask(OffsetCommitRequest(GROUP, generation, member_id, self.instance, -1, topics), version, self._committed)

    def _committed(self, call: Call, error: int, reply: Any) -> None:
        pass

    def _fetch(self, which: frozenset[Partition]) -> None:
        asked = [OffsetFetchRequestTopics(topic_id(topic), topic, numbers) for topic, numbers in by_topic(which).items()]
        group = OffsetFetchRequestGroup(GROUP, None, -1, asked if self.random.random() < 0.7 else None)
        self.ask(OffsetFetchRequest([group], require_stable=self.random.random() < 0.5), 9, self._committed)
