"""The shards of one internal topic that one process owns, as the image says. It opens them, reports new leaders to them, and
closes them."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from libs.clock import Clock
from libs.cluster.configs.resolve import effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.cluster.shard_owners import Owner
from libs.coordinator.core.decisions import Machine
from libs.coordinator.core.pending import Answer
from libs.coordinator.core.shard import BATCH_BYTES_MAX
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.write_errors import NOT_COORDINATOR
from libs.coordinator.log.internal_log import InternalLog
from libs.coordinator.log.joined_appends import JoinedAppends
from libs.coordinator.log.storage_log import StorageLog
from libs.coordinator.shards.driver import ShardDriver
from libs.coordinator.shards.steady_time import SteadyTime
from libs.coordinator.shards.unwritable_decisions import UnwritableDecisions
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.logs import fields
from libs.telemetry.tracing.span import SpanContext

log = logging.getLogger("coordinators")

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")

BATCH_OVERHEAD = 1024

OnState = Callable[[State], None]


def _unwatched(index: int) -> OnState:
    return lambda _: None


class ShardSet(Generic[E, R, S]):
    """The shards of one process. Call `follow` with each image, after `StorageNodes.follow`. `make` builds the machine of the
    shard with that index.

    `open_log` is replaced by tests and the simulator. `watch` is called with the index of each shard that is opened. What it
    returns is called with each state that the shard then enters. The first state is CLAIMING.
    """

    def __init__(
        self,
        topic: str,
        owner: Owner,
        make: Callable[[int, Journal], Machine[E, R, S]],
        nodes: StorageNodes,
        clock: Clock,
        *,
        open_log: Callable[[bytes, int, Callable[[], ClusterImage], StorageNodes, JoinedAppends], InternalLog] = StorageLog,
        watch: Callable[[int], OnState] = _unwatched,
    ) -> None:
        self._topic = topic
        self._owner = str(owner)
        self._make = make
        self._nodes = nodes
        self._clock = clock
        self._time = SteadyTime(clock, asyncio.get_running_loop().time)
        self._open_log = open_log
        self._appends = JoinedAppends()
        self._watch = watch
        self.unwritable = UnwritableDecisions(asyncio.get_running_loop())
        """The decisions of all shards that could not be written."""
        self._image = ClusterImage()
        self._drivers: dict[int, ShardDriver[E, R, S]] = {}
        self._to_append: dict[ShardDriver[E, R, S], None] = {}
        """Drivers that have something to append at the end of this turn."""
        self._leaders: dict[int, int] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._topic_id = b""
        self._states: Sequence[PartitionState | None] = ()
        self._closed = False

    # -- requests ---------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of shards of the topic, whoever owns them. 0 if there is no such topic."""
        topic = self._image.topics.get(self._topic)
        return topic.partitions if topic is not None else 0

    def submit(
        self, index: int, event: E, on_result: "Callable[[Answer[R, Any]], None]", trace: SpanContext | None = None
    ) -> None:
        """Decides `event`. `on_result` is called once, perhaps before this returns. Nothing is appended before `end_turn`.
        `trace`: the context of the append that it will wait for."""
        driver = self._drivers.get(index)
        if driver is None:
            on_result(Answer(on_result, NOT_COORDINATOR))
        elif driver.submit(event, on_result, trace):
            self._to_append[driver] = None

    def end_turn(self) -> None:
        """Appends what was decided in this turn. Call it after the last `submit` of the turn."""
        if not self._to_append:
            return
        to_append, self._to_append = self._to_append, {}
        with self._appends:
            for driver in to_append:
                driver.append()

    @property
    def owned(self) -> Mapping[int, ShardDriver[E, R, S]]:
        return self._drivers

    @property
    def serving(self) -> Mapping[int, ShardDriver[E, R, S]]:
        """The owned shards that are loaded, and decide."""
        return {index: driver for index, driver in self._drivers.items() if driver.state is State.SERVING}

    def by_state(self) -> list[tuple[tuple[str], int]]:
        """The number of owned shards in each state, by the state's name."""
        return sorted(Counter((driver.state.value,) for driver in self._drivers.values()).items())

    def readiness(self) -> tuple[bool, str]:
        """Whether all owned shards are served, in words."""
        late = [driver for driver in self._drivers.values() if driver.state is not State.SERVING]
        if late:
            records = sum(driver.progress.records for driver in late)
            return False, f"{len(late)} of {len(self._drivers)} shards are not loaded yet ({records} records read)"
        return True, f"ready, {len(self._drivers)} shards"

    def now_ms(self) -> int:
        """The wall time by which the shards decide."""
        return self._time.now_ms()

    def debug(self) -> object:
        return {driver.name: driver.debug() for _, driver in sorted(self._drivers.items())}

    # -- following --------------------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if self._closed:
            return
        if any(image.overrides(*level) is not before.overrides(*level) for level in (("broker", ""), ("topic", self._topic))):
            for driver in self._drivers.values():
                driver.shard.batch_bytes_max = self._batch_bytes_max()
        topic = image.topics.get(self._topic)
        topic_id = bytes.fromhex(topic.topic_id) if topic is not None else b""
        states = image.partitions_of(topic_id) if topic is not None else ()
        if states is self._states and topic_id == self._topic_id:
            return
        self._states = states
        if topic_id != self._topic_id:
            for index in list(self._drivers):
                self._close_shard(index)
            self._topic_id = topic_id
        for index in range(max([len(states), *[index + 1 for index in self._drivers]])):
            self._follow_shard(index, states[index] if index < len(states) else None)

    def _follow_shard(self, index: int, state: PartitionState | None) -> None:
        driver = self._drivers.get(index)
        ours = state is not None and state.owner == self._owner
        if driver is not None and (state is None or not ours or state.owner_epoch != driver.owner_epoch):
            self._close_shard(index)
            driver = None
        if state is None or not ours:
            return
        if driver is None:
            self._leaders[index] = state.leader_epoch
            self._drivers[index] = self._open(index, state.owner_epoch)
        elif self._leaders[index] != state.leader_epoch:
            self._leaders[index] = state.leader_epoch
            driver.leader_moved()

    def _open(self, index: int, owner_epoch: int) -> ShardDriver[E, R, S]:
        name = f"{self._topic}-{index}"
        log.info("shard assigned", extra=fields(shard=name, owner_epoch=owner_epoch))
        return ShardDriver(
            name,
            self._open_log(self._topic_id, index, lambda: self._image, self._nodes, self._appends),
            lambda journal: self._make(index, journal),
            owner_epoch,
            self._clock,
            self._time,
            batch_bytes_max=self._batch_bytes_max(),
            on_state=self._watch(index),
            unwritable=self.unwritable,
        )

    def _batch_bytes_max(self) -> int:
        limit = effective_topic_config(self._image, self._topic).max_message_bytes
        return max(min(limit - BATCH_OVERHEAD, BATCH_BYTES_MAX), BATCH_OVERHEAD)

    def _close_shard(self, index: int) -> None:
        driver = self._drivers.pop(index)
        log.info("shard unassigned", extra=fields(shard=driver.name, owner_epoch=driver.owner_epoch))
        driver.unload()
        task = asyncio.get_running_loop().create_task(driver.closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Closes all shards. Appends in flight are answered first."""
        self._closed = True
        for index in list(self._drivers):
            self._close_shard(index)
        if self._closing:
            await asyncio.gather(*self._closing)
