"""The common part of all clients: a client owns partitions for a while, fetches its positions, and commits."""

from collections.abc import Callable
from typing import Any, Protocol

from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from services.group_coordinator.core.model.topics_view import TopicsView
from tests.group_coordinator.conversion.clients import Partition, by_topic
from tests.group_coordinator.named_topics import topic_id
from tests.simulation.groups.network import Call, Link, Network
from tests.simulation.groups.simulator import Simulator

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 15_000
"""Longer than a session: who hears nothing for a session has stopped by itself."""
BEAT_MS = 1500
RETRY_MS = 150
LOST = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
)
"""Whoever hears one of them has nothing any more."""


class World(Protocol):
    simulator: Simulator
    network: Network

    @property
    def topics(self) -> TopicsView: ...

    def owns(self, client: "Client") -> None:
        """Begins to read a partition."""
        ...

    def next_offset(self) -> int: ...


class Client:
    """One life after the other. `owned` is what it reads, as long as its lease runs."""

    kind = ""

    def __init__(self, world: World, number: int, instance: str | None = None, *, in_order: bool = False) -> None:
        self.world = world
        self.simulator = world.simulator
        self.random = world.simulator.random
        self.number = number
        self.instance = instance
        self.link = Link(world.network, f"{self.kind} {number}", in_order=in_order)
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
        return self.link.name

    @property
    def reads(self) -> frozenset[Partition]:
        return self.owned if self.simulator.now_ms < self.lease_ms else frozenset()

    # -- a life -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if not self.runs and not self.retired:
            self.runs = True
            self.life += 1
            self.forget()
            self.simulator.log_event(f"{self} starts")
            self._later(self.random.random() * 500, self._tick)
            self._later(self.random.random() * 2000, self._commit_now_and_then)

    def crash(self) -> None:
        """All that it knew is gone, and nobody was told."""
        if self.runs:
            self.simulator.log_event(f"{self} ends")
            self.runs, self.waits = False, None
            self.link.reset()
            self.forget()

    def stop(self) -> None:
        """Stops cleanly."""
        if self.runs:
            self.leave()
            self.crash()

    def lose_connection(self) -> None:
        self.link.reset()
        waits, self.waits = self.waits, None
        if waits is not None and not waits.done:
            self._later(self.random.choice((1, 50, 400)), self.world.network.broken, waits)

    def _later(self, ms: float, what: Callable[..., None], *args: object) -> None:
        self.simulator.later(ms, self._if_alive, self.life, what, args)

    def _if_alive(self, life: int, what: Callable[..., None], args: tuple[object, ...]) -> None:
        if life == self.life and self.runs:
            if self.simulator.now_ms < self.paused_ms:
                self.simulator.later(self.paused_ms - self.simulator.now_ms, self._if_alive, life, what, args)
            else:
                what(*args)

    def _tick(self) -> None:
        if self.owned and self.simulator.now_ms >= self.lease_ms:
            self.simulator.log_event(f"{self} heard nothing for too long, and stops reading")
            self.lease_over()
        self.beat()
        self._later(BEAT_MS * (0.7 + 0.6 * self.random.random()), self._tick)

    def ask(self, request: Any, version: int, hears: Callable[[Call, int, Any], None], ms_max: int = 4000) -> Call:
        life = self.life

        def heard(error: int, reply: Any) -> None:
            self._if_alive(life, hears, (call, error or getattr(reply, "error_code", 0), reply))

        call = self.link.ask(request, version, heard, ms_max)
        return call

    def own(self, owned: frozenset[Partition]) -> None:
        new = owned - self.owned
        if owned != self.owned:
            named = ", ".join(f"{topic}{numbers}" for topic, numbers in by_topic(owned).items())
            self.simulator.log_event(f"{self} owns {named or 'nothing'}")
        self.owned = owned
        if new:
            self.world.owns(self)
            self._later(self.random.random() * 50, self._fetch, new)

    # -- what protocols fill in -------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Forgets everything of the former life."""
        self.owned = frozenset()

    def beat(self) -> None:
        """Every `BEAT_MS`, about."""

    def leave(self) -> None:
        """Leaves. The client does not wait for the answer."""

    def lease_over(self) -> None: ...

    @property
    def is_idle(self) -> bool:
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
