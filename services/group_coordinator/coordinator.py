"""The groups' coordinator: the shards of `__consumer_offsets` that this process owns, and what their groups are to know.

It decides nothing: the image says which shards it owns, `core/machine.py` what becomes of a group, the log what is true.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from libs.clock import Clock
from libs.cluster.configs.group_settings import own_group_values
from libs.cluster.image import ClusterImage
from libs.cluster.owners import Owner
from libs.cluster.records import GROUP_COORDINATOR
from libs.cluster.topic_names import GROUP_TOPIC
from libs.runtime.shards.decisions import Machine
from libs.runtime.shards.shard_set import ShardSet
from libs.runtime.shards.states import State
from libs.runtime.shards.storage_log import StorageLog
from libs.runtime.shards.tables import Journal
from libs.runtime.storage_nodes import StorageNodes
from services.group_coordinator.core.asked import Asked, Reply
from services.group_coordinator.core.machine import GroupMachine
from services.group_coordinator.core.settings import GroupSettings
from services.group_coordinator.core.topics_view import TopicsView
from services.group_coordinator.group_lines import GroupLines
from services.group_coordinator.lag import LagMeter
from services.group_coordinator.lag_series import LagSeries
from services.group_coordinator.metered import Metered
from services.group_coordinator.meters import Meters
from services.group_coordinator.seen import Seen
from services.group_coordinator.settings import Settings
from services.group_coordinator.told import Told
from services.group_coordinator.topics import Topics


@dataclass(frozen=True, slots=True)
class Known:
    """What a machine may look up while it decides: always as of the newest image."""

    image: Callable[[], ClusterImage]
    settings: Callable[[], GroupSettings]
    topics: Callable[[], TopicsView]
    group_configs: Callable[[str], Mapping[str, str]]
    """What was set for that group (`kafka-configs --entity-type groups`); empty for most."""


MakeMachine = Callable[[Journal, Known], Machine[Asked, Reply, Any]]


def group_machine(journal: Journal, known: Known) -> GroupMachine:
    return GroupMachine(journal, known.settings, known.group_configs, known.topics)


class GroupCoordinator:
    """Call `follow` with each image, and `close` at the end. Needs a running loop from its making on."""

    def __init__(self, owner: Owner, nodes: StorageNodes, clock: Clock, make: MakeMachine, *, lag_series_max: int = 0) -> None:
        self.owner = owner
        self.nodes = nodes
        self.image = ClusterImage()
        self.meters = Meters()
        self.waits_for = "waits for the metadata store, or for a peer that has an image"
        """Empty once it is registered."""
        self._topics = Topics()
        self._settings = Settings()
        known = Known(
            image=lambda: self.image,
            settings=lambda: self._settings.current,
            topics=lambda: self._topics.view,
            group_configs=lambda name: own_group_values(self.image, name),
        )
        lines = GroupLines(asyncio.get_running_loop().call_later)

        def metered(index: int, journal: Journal) -> Metered:
            return Metered(make(journal, known), journal, Told(self.meters, lines).tell)

        self.shards: ShardSet[Asked, Reply, Any] = ShardSet(
            *(GROUP_TOPIC, owner, metered, nodes, clock),
            open_log=partial(StorageLog, append_ms_max=lambda: self._settings.current.commit_timeout_ms),
            watch=self._watch_load,
        )
        self.lag = LagMeter(lambda: self.image, nodes, clock)
        self.seen = Seen(self.shards, self._owner_of, lambda: self.topics, self.lag, clock)
        self.lag_series = LagSeries(self.seen, self.lag, lag_series_max)

    def follow(self, image: ClusterImage) -> None:
        self.image = image
        self.nodes.follow(image)
        self._settings.follow(image)
        self._topics.follow(image)
        self.shards.follow(image)

    @property
    def topics(self) -> TopicsView:
        return self._topics.view

    @property
    def others(self) -> bool:
        """Whether somebody else could take a shard over."""
        members = self.image.members(GROUP_COORDINATOR).values()
        return any(not member.stopping for member in members if member.node_id != self.owner.node_id)

    def ready(self) -> tuple[bool, str]:
        """All that it owns is served."""
        if self.waits_for:
            return False, self.waits_for
        owned = self.shards.owned
        late = [driver for driver in owned.values() if driver.state is not State.SERVING]
        if late:
            records = sum(driver.progress.records for driver in late)
            return False, f"{len(late)} of {len(owned)} shards are not loaded yet ({records} records read)"
        return True, f"ready, {len(owned)} shards"

    async def close(self) -> None:
        """What is under way is answered first."""
        await self.shards.close()

    def _owner_of(self, shard: int) -> str:
        topic = self.image.topics.get(GROUP_TOPIC)
        state = self.image.partition(bytes.fromhex(topic.topic_id), shard) if topic is not None else None
        return state.owner if state is not None else ""

    def _watch_load(self, index: int) -> Callable[[State], None]:
        now = asyncio.get_running_loop().time
        begun: float | None = now()

        def note(state: State) -> None:
            nonlocal begun
            if state is State.SERVING and begun is not None:
                self.meters.loads.observe(now() - begun)
                begun = None
            elif state is State.CLAIMING and begun is None:
                begun = now()

        return note
