"""The group coordinator service: the shards of `__consumer_offsets` that this process owns.

It decides nothing. The image says which shards it owns, `core/group_machine.py` decides about groups, and the log holds the
truth.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from libs.clock import Clock
from libs.cluster.configs.group_settings import own_group_values
from libs.cluster.image import ClusterImage
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.decisions import Machine
from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.log.storage_log import StorageLog
from libs.coordinator.shards.shard_set import ShardSet
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import Finding
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.recorder import SpanRecorder
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.group_events import GroupEvent
from services.group_coordinator.core.model.requests import Reply, RequestEvent
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView
from services.group_coordinator.introspection.groups import GroupViews
from services.group_coordinator.introspection.lag_metrics import LagMetrics
from services.group_coordinator.lag.lag_meter import LagMeter
from services.group_coordinator.metadata.settings import Settings
from services.group_coordinator.metadata.topics import Topics
from services.group_coordinator.telemetry.group_decision_log import GroupDecisionLog
from services.group_coordinator.telemetry.group_event_log import GroupEventLog
from services.group_coordinator.telemetry.group_events import GroupEventRecorder
from services.group_coordinator.telemetry.group_meters import GroupMeters
from services.group_coordinator.telemetry.rebalance_traces import RebalanceTraces


@dataclass(frozen=True, slots=True)
class MachineInputs:
    """What a machine reads while it decides, always from the newest image."""

    image: Callable[[], ClusterImage]
    settings: Callable[[], GroupSettings]
    topics: Callable[[], TopicsView]
    group_configs: Callable[[str], Mapping[str, str]]
    """Configs of that group (`kafka-configs --entity-type groups`). Empty for most groups."""


MakeMachine = Callable[[Journal, MachineInputs], Machine[RequestEvent, Reply, Any]]


def group_machine(journal: Journal, known: MachineInputs) -> GroupMachine:
    return GroupMachine(journal, known.settings, known.group_configs, known.topics)


class GroupCoordinator:
    """The service. Call `follow` with each image, and `close` at the end. It needs a running event loop."""

    def __init__(
        self,
        owner: Owner,
        nodes: StorageNodes,
        clock: Clock,
        make: MakeMachine,
        recorder: SpanRecorder,
        *,
        lag_series_max: int = 0,
    ) -> None:
        self.owner = owner
        self.nodes = nodes
        self.image = ClusterImage()
        self.meters = GroupMeters()
        self.waits_for = "waits for the metadata store, or for a peer that has an image"
        """Why it is not ready. Empty once it is registered."""
        self.registered: Callable[[], bool] = lambda: False
        self._topics = Topics()
        self.group_settings = Settings()
        known = MachineInputs(
            image=lambda: self.image,
            settings=lambda: self.group_settings.current,
            topics=lambda: self._topics.view,
            group_configs=lambda name: own_group_values(self.image, name),
        )
        loop = asyncio.get_running_loop()
        lines = GroupEventLog(loop.call_later)
        self.recorder = recorder
        self.rebalances = RebalanceTraces(recorder, loop.time, loop.call_soon)
        self._recorders: dict[int, GroupEventRecorder] = {}
        """By shard, the recorder of its newest machine."""

        def observed(index: int, journal: Journal) -> ObservedMachine[RequestEvent, Reply]:
            self._recorders[index] = events_of_shard = GroupEventRecorder(self.meters, lines)

            def committed(events: Sequence[GroupEvent], now_ms: int) -> None:
                events_of_shard.record(events, now_ms)
                self.rebalances.observe(events)

            return ObservedMachine(make(journal, known), journal, committed, GroupDecisionLog())

        self.shards: ShardSet[RequestEvent, Reply, Any] = ShardSet(
            GROUP_TOPIC,
            owner,
            observed,
            nodes,
            clock,
            open_log=partial(StorageLog, append_ms_max=lambda: self.group_settings.current.commit_timeout_ms),
            watch=self._watch_load,
        )
        self.lag = LagMeter(lambda: self.image, nodes, clock)
        self.group_views = GroupViews(self.shards, self._owner_of, lambda: self.topics, self.lag, clock)
        self.lag_series = LagMetrics(self.group_views, self.lag, lag_series_max)

    def follow(self, image: ClusterImage) -> None:
        self.image = image
        self.nodes.follow(image)
        self.group_settings.follow(image)
        self._topics.follow(image)
        self.shards.follow(image)

    @property
    def topics(self) -> TopicsView:
        return self._topics.view

    def open_epoch(self, shard: int, producer_id: int) -> int | None:
        """The epoch of the producer's open transaction in that shard. None: it has none, or the shard is not served here."""
        driver = self.shards.owned.get(shard)
        if driver is None or driver.state is not State.SERVING:
            return None
        machine: Any = driver.machine
        return machine.machine.offsets.pending.epoch_of(producer_id) if isinstance(machine.machine, GroupMachine) else None

    def findings(self) -> Iterator[Finding]:
        """The groups that have been rebalancing for too long."""
        now_ms = self.shards.now_ms()
        for recorder in self._serving():
            yield from recorder.overdue(now_ms)

    def longest_rebalance_s(self) -> float:
        """The age of the longest rebalance, in seconds. 0: no group rebalances."""
        now_ms = self.shards.now_ms()
        begun = [begun_ms for recorder in self._serving() if (begun_ms := recorder.oldest_ms()) is not None]
        return max(now_ms - min(begun, default=now_ms), 0) / 1000

    def ready(self) -> tuple[bool, str]:
        """Readiness for the admin port: all its shards are served."""
        return (False, self.waits_for) if self.waits_for else self.shards.readiness()

    async def close(self) -> None:
        """Closes all shards. Appends in flight are answered first."""
        await self.shards.close()

    def _serving(self) -> list[GroupEventRecorder]:
        """The recorders of the shards that are served."""
        return [self._recorders[index] for index in self.shards.serving]

    def _owner_of(self, shard: int) -> str:
        topic = self.image.topics.get(GROUP_TOPIC)
        state = self.image.partition(bytes.fromhex(topic.topic_id), shard) if topic is not None else None
        return state.owner if state is not None else ""

    def _watch_load(self, index: int) -> Callable[[State], None]:
        now = asyncio.get_running_loop().time
        begun: float | None = now()

        def note(state: State) -> None:
            nonlocal begun
            if state is State.SERVING:
                self._forget_ended_rebalances(index)
            if state is State.SERVING and begun is not None:
                self.meters.loads.observe(now() - begun)
                begun = None
            elif state is State.CLAIMING and begun is None:
                begun = now()

        return note

    def _forget_ended_rebalances(self, index: int) -> None:
        machine: Any = self.shards.owned[index].machine
        if isinstance(machine.machine, GroupMachine):
            self._recorders[index].forget_ended(machine.machine.rebalances)
