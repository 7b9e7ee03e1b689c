"""A transaction coordinator process: the whole service, above connections and storage nodes that are simulated."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR
from libs.coordinator.tracing.call_spans import CallSpans
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.protocol.leader_requests import LeaderRequests
from services.transaction_coordinator.protocol.transaction_requests import TransactionRequests
from tests.simulation.append_traces import CheckedSpans
from tests.simulation.transactions.network import Call, Clients, Connection, Server
from tests.simulation.transactions.world import World

LONG_TURN_S = 0.02
"""The time in which several requests come, so that shards append together."""


class _ProducerIds:
    """The supply of producer ids: each is new."""

    def __init__(self, numbers: "itertools.count[int]") -> None:
        self._numbers = numbers

    async def next(self) -> int:
        return next(self._numbers)


class CoordinatorProcess(Server):
    def __init__(self, world: World, node_id: int, incarnation: int) -> None:
        super().__init__(world.simulator, TRANSACTION_COORDINATOR, node_id, incarnation)
        self.world = world
        self._skew_ms = world.random.randint(-300, 300)
        self._in_turn = False
        self._booted = False

    def _boot(self) -> None:
        self._booted = True
        network, find = self.world.network, self.world.process_of
        self.nodes = Clients(network, self, STORAGE, find)
        nodes: Any = self.nodes
        groups: Any = Clients(network, self, GROUP_COORDINATOR, find)
        clock: Any = SimpleNamespace(
            wall_ms=lambda: self.world.wall_ms + self._skew_ms, wall_ns=lambda: self.world.wall_ms * 1_000_000
        )
        now = self.world.simulator.loop.time
        recorder = SpanRecorder(Tracing(TraceRules(), CheckedSpans()), str(self.owner), clock, now)
        spans = CallSpans(recorder, now)
        producer_ids: Any = _ProducerIds(self.world.producer_ids)
        self.coordinator = coordinator = TransactionCoordinator(self.owner, nodes, groups, clock, recorder)
        shards, completions = coordinator.shards, coordinator.completions
        self._requests = TransactionRequests(
            shards,
            lambda: coordinator.image,
            producer_ids,
            completions,
            coordinator.meters.answered,
            spans,
            coordinator.traces.asked,
            coordinator.traces.refused,
        )
        leaders = LeaderRequests(shards, lambda: coordinator.image, completions, spans)
        self._methods: dict[str, Callable[[Any], None]] = {**self._requests.methods, **leaders.methods}

    def serve(self, method: str, call: Call) -> None:
        if not self._booted:
            call.fail(int(ErrorCode.BROKER_NOT_AVAILABLE), "it knows no image yet")
            return
        self._methods[method](call)
        if not self.world.long_turns:
            self.coordinator.shards.end_turn()
        elif not self._in_turn:
            self._in_turn = True
            self.soon(LONG_TURN_S, self._end_turn)

    def _end_turn(self) -> None:
        self._in_turn = False
        self.coordinator.shards.end_turn()

    def see(self, image: ClusterImage) -> None:
        if image.revision <= self.image.revision:
            return
        if not self._booted:
            self._boot()
        self.image = image
        self.coordinator.follow(image)
        self._requests.follow(image)

    @property
    def connections(self) -> list[Connection]:
        return self.nodes.all if self._booted else []
