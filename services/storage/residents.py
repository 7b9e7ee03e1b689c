"""Makes the partitions on this node what the cluster image says: opens, creates, leads, resigns, deletes.

What an image change takes away is taken away at once, on the event loop: leadership, and partitions of deleted topics. What it
gives needs the disk, so each partition has a task of its own, which works towards the newest image, never towards the one that
started it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState, Topic
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.appends import Appends
from services.storage.burials import Burials
from services.storage.core.admission import Refusal, effective_min_in_sync
from services.storage.core.leadership import Follow, Lead, decide_role, hosts, is_dispensable
from services.storage.disks import Disk, Disks
from services.storage.held_partitions import HeldPartitions
from services.storage.hosted import Hosted, Key
from services.storage.image_changes import changed_keys
from services.storage.moving.places import Places
from services.storage.moving.wanted import WantedDirectories
from services.storage.openings import Openings
from services.storage.partitions import Partitions
from services.storage.placements import Placements
from services.storage.readers import Readers
from services.storage.replica_opening import ReplicaOpening
from services.storage.strays import set_aside_strays
from services.storage.timers import Timers
from services.storage.topic_settings import TopicConfigs
from services.storage.withdrawals import Withdrawals

if TYPE_CHECKING:
    from services.storage.following.following import Following
    from services.storage.moving.moves import Moves

log = logging.getLogger(__name__)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DELETE_DELAY = "log.segment.delete.delay.ms"
PARTITIONS_PER_TURN = 20
"""Between so many partitions, requests get their turn."""


class Residents:
    """Follows images. One task per partition that needs work; they share the disks' worker threads."""

    def __init__(
        self,
        incarnation: int,
        partitions: Partitions,
        disks: Disks,
        openings: Openings,
        appends: Appends,
        readers: Readers,
        placements: Placements,
        withdrawals: Withdrawals,
        wanted: WantedDirectories,
        *,
        before_removal: Callable[[], Awaitable[None]],
        static: Mapping[str, str],
    ) -> None:
        self._node_id = partitions.node_id
        self._incarnation = incarnation
        self._partitions = partitions
        self._disks = disks
        self._openings = openings
        self._appends = appends
        self._readers = readers
        self._withdrawals = withdrawals
        self._configs = TopicConfigs(partitions.node_id, static)
        self._homes: dict[Key, tuple[Hosted, Disk]] = {}  # every open log, also of one that is about to go
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._again: set[Key] = set()
        self._unconfigured: dict[Hosted, None] = {}
        self._names: dict[str, asyncio.Lock] = {}
        self._loop = asyncio.get_running_loop()
        self._timers = Timers()
        self._following: Following
        self._moves: Moves
        self.held = HeldPartitions(
            partitions, self._tasks.keys(), lambda hosted: self._following.let_go(hosted), self._answer_again
        )
        self._opening = ReplicaOpening(
            *(partitions, disks, openings, self._configs, placements, withdrawals, wanted, self._timers),
            forget_former_selves=before_removal,
        )
        self.places = Places(partitions, disks, placements, withdrawals)
        self._burials = Burials(
            lambda: effective_broker_int(partitions.image, DELETE_DELAY, broker_id=partitions.node_id, static=static),
            before_removal,
        )

    # -- following --------------------------------------------------------------------------------------------------------

    def follow_with(self, following: "Following") -> None:
        """Before the first image: it copies what others lead."""
        self._following = following

    def move_with(self, moves: "Moves") -> None:
        """Before the first image: it moves logs between the directories."""
        self._moves = moves

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """An `ImageFollower` subscriber; for the first image, `old` is the empty one."""
        self._partitions.image = new
        if changed := self._configs.follow(new):
            topics = {name for kind, name in changed if kind == "topic"}
            all_too = any(kind != "topic" for kind, _ in changed)
            was_behind = bool(self._unconfigured)
            self._unconfigured |= {hosted: None for hosted, _ in self._homes.values() if all_too or hosted.topic in topics}
            if not was_behind:
                self._configure_some()
        for key in dict.fromkeys(changed_keys(old, new)):  # of a new topic both differ, and the work is done once
            self._take_away(key)
            self._work_on(key)
        self._following.follow_image(old, new)
        self._withdrawals.follow_image()
        self._appends.recheck()

    def look_again(self, key: Key) -> None:
        """What kept it from its role may be over."""
        self._work_on(key)

    async def settled(self) -> None:
        """Returns once what the images asked for until now is done, or has failed."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def open_logs(self) -> list[tuple[Hosted, Disk]]:
        return list(self._homes.values())

    def has_open(self, hosted: Hosted) -> bool:
        """Whether it is here to stay, as far as is known, and its disk works. One that is about to be buried must not be owed
        another sync round: that would look for its directory under the old name."""
        return self._partitions.by_key.get(hosted.key) is hosted and not hosted.offline

    def home(self, key: Key) -> tuple[Hosted, Disk] | None:
        """Its open log, and where that is."""
        return self._homes.get(key)

    def lacks(self, key: Key) -> bool:
        """It is to be here, and is not."""
        return key not in self._homes and self._desired(key) is not None

    def home_of(self, hosted: Hosted) -> Disk | None:
        home = self._homes.get(hosted.key)
        return home[1] if home is not None and home[0] is hosted else None

    # -- moving to another directory ------------------------------------------------------------------------------------------

    def moved(self, hosted: Hosted, disk: Disk) -> None:
        """While it is held."""
        self._homes[hosted.key] = hosted, disk

    def _answer_again(self, key: Key) -> None:
        """What images asked of it while it was held is asked again."""
        self._take_away(key)
        self._work_on(key)

    async def bury_source(self, hosted: Hosted, disk: Disk) -> None:
        """It was moved from there."""
        async with self._lock_of(str(hosted)):
            if disk.holds(hosted.key) and not disk.sync.failed:
                await self._burials.bury(hosted, disk, told="removed from the log directory that it left")

    async def released(self, hosted: Hosted) -> None:
        """Returns when nobody moves or cuts its log."""
        await self.held.released(hosted)
        await self._following.released(hosted)

    async def set_aside_strays(self) -> None:
        await set_aside_strays(self._disks, self._partitions, lambda key: self._desired(key) is not None, self._lock_of)

    def _lock_of(self, name: str) -> asyncio.Lock:
        return self._names.setdefault(name, asyncio.Lock())

    def _desired(self, key: Key) -> tuple[Topic, PartitionState] | None:
        """A topic's record is its commit: partition states without one are not (or no longer) a topic's."""
        image = self._partitions.image
        topic = image.topics_by_id.get(key[0])
        if topic is None or key[1] >= topic.partitions:
            return None
        state = image.partition(*key)
        return (topic, state) if state is not None and hosts(state, self._node_id) else None

    def _take_away(self, key: Key) -> None:
        """Whoever waits for what this node no longer leads, or no longer has, hears of it now."""
        hosted = self._partitions.by_key.get(key)
        desired = self._desired(key)
        if desired is None:
            self._partitions.broken.discard(key)
            self._withdrawals.served(key)
            self._withdrawals.stand_up(key)
            if (name := self._openings.forget(key)) is not None:
                self._disks.forget_gone(name, key[1])
        role = decide_role(desired[1], node_id=self._node_id, incarnation=self._incarnation) if desired is not None else None
        home = self._homes.get(key)
        if home is not None and not (isinstance(role, Follow) and self._following.follows(home[0], role)):
            self._following.let_go(home[0])
        if hosted is None:
            return
        if role is None:
            del self._partitions.by_key[key]
            hosted.replica.resign(hosted.leader_epoch)
            self._appends.refuse_waiting(hosted, Refusal(UNKNOWN))
            self._readers.wake(key)
            return
        if hosted.leading and not (isinstance(role, Lead) and role.leader_epoch == hosted.leader_epoch):
            self._resign(hosted, -1 if isinstance(role, Lead) else role.leader, role.leader_epoch)

    def _resign(self, hosted: Hosted, leader: int, leader_epoch: int) -> None:
        hosted.replica.resign(leader_epoch)
        self._appends.refuse_waiting(hosted, Refusal(NOT_LEADER, None, leader, leader_epoch))
        self._readers.wake(hosted.key)

    def _configure_some(self) -> None:
        """A change of a broker's configs may be one of thousands of partitions."""
        for hosted in list(islice(self._unconfigured, PARTITIONS_PER_TURN)):
            del self._unconfigured[hosted]
            if hosted.key in self._homes and self._homes[hosted.key][0] is hosted:
                self._configure(hosted)
        if self._unconfigured:
            self._loop.call_soon(self._configure_some)

    def _configure(self, hosted: Hosted) -> None:
        config = self._configs.of(hosted.topic)
        if config == hosted.config:
            return
        desired = self._desired(hosted.key)
        hosted.configure(config)
        replicas = desired[1].replication_factor if desired is not None else 1
        minimum = effective_min_in_sync(config.min_insync_replicas, replicas)
        became_synced = config.synced and not hosted.replica.synced
        if hosted.replica.configure(synced=config.synced, min_in_sync=minimum):
            self._appends.committed(hosted)
        if became_synced and self.has_open(hosted):
            hosted.sync.owe(hosted)
            hosted.sync.kick()

    # -- working ----------------------------------------------------------------------------------------------------------

    def _work_on(self, key: Key) -> None:
        if key in self._tasks:
            self._again.add(key)
        elif key in self._homes or self._desired(key) is not None:
            task = self._tasks[key] = self._loop.create_task(self._work(key))
            task.add_done_callback(partial(self._worked, key))

    def _worked(self, key: Key, task: "asyncio.Task[None]") -> None:
        del self._tasks[key]
        if key in self._again:
            self._again.discard(key)
            if not task.cancelled():
                self._work_on(key)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("partition work failed", exc_info=error, extra=fields(topic_id=key[0].hex(), partition=key[1]))
        self._appends.recheck()

    async def _work(self, key: Key) -> None:
        desired = self._desired(key)
        home = self._homes.get(key)
        if desired is None:
            if home is not None:
                await self._evict(home[0])
            return
        topic, state = desired
        if home is None:
            async with self._lock_of(f"{topic.name}-{key[1]}"):
                await self._make_way(topic.name, key)
                opened = await self._opening.open(key, topic, state, partial(self._work_on, key))
                if opened is None:
                    return
                self._homes[key] = opened
            hosted = opened[0]
            desired = self._desired(key)
            if desired is None:
                self._again.add(key)  # deleted while it was opened: come again, to evict it
                return
        else:
            hosted = home[0]
            await self.released(hosted)
            desired = self._desired(key)
            if desired is None:
                return  # whoever took it away has asked for it to be worked on again
            if hosted.failed_reads.damaged and is_dispensable(desired[1], self._node_id):
                await self._give_up(hosted)
                self._again.add(key)  # to be copied anew
                return
        self._partitions.by_key[key] = hosted
        self._play(hosted, self._homes[key][1], desired[1])
        self.places.check(hosted, self._homes[key][1])

    def _play(self, hosted: Hosted, disk: Disk, state: PartitionState) -> None:
        """The role that the state gives this node, now that the log is here."""
        role = decide_role(state, node_id=self._node_id, incarnation=self._incarnation)
        if not isinstance(role, Lead):
            if hosted.leading:
                self._resign(hosted, role.leader, role.leader_epoch)
            self._following.follow(hosted, disk, role)
            return
        self._following.let_go(hosted)
        if role.leader_epoch < hosted.leader_epoch or hosted.offline:
            return
        if not hosted.leading:
            # The epoch starts at the log's end, before the first write in it. The sync round that makes that write durable
            # writes the epoch's start too; after a crash in between, the batches themselves tell the epoch.
            hosted.log.epochs.assign(role.leader_epoch, hosted.log_end_offset)
            hosted.sync.owe(hosted)
            log.info("leading", extra=fields(partition=hosted, leader_epoch=role.leader_epoch, log_end=hosted.log_end_offset))
        minimum = effective_min_in_sync(hosted.config.min_insync_replicas, state.replication_factor)
        lowered = hosted.replica.configure(synced=hosted.config.synced, min_in_sync=minimum)
        if hosted.replica.lead(role) or lowered:
            self._appends.committed(hosted)
        self._readers.wake(hosted.key)
        hosted.sync.kick()

    # -- opening and deleting -----------------------------------------------------------------------------------------------

    async def _make_way(self, topic: str, key: Key) -> None:
        """A topic that was deleted and made again at once may find its former self here, still open: that one is buried first."""
        former = [home for other, home in self._homes.items() if other[1] == key[1] and other != key and home[0].topic == topic]
        for hosted, _ in former:
            await self._bury(hosted)

    async def _evict(self, hosted: Hosted) -> None:
        """The partition left the image: its name is freed now, its files go after log.segment.delete.delay.ms."""
        async with self._lock_of(str(hosted)):
            if hosted.key in self._homes:  # else its successor buried it
                await self._bury(hosted)

    async def _give_up(self, hosted: Hosted) -> None:
        """A read found it damaged, and nobody counts on it."""
        async with self._lock_of(str(hosted)):
            self._partitions.by_key.pop(hosted.key, None)
            disk = await self._close(hosted)
            if not disk.sync.failed:
                await self._opening.set_aside(disk, hosted.key, hosted.topic)

    async def _bury(self, hosted: Hosted) -> None:
        """The caller holds the lock of its name."""
        disk = await self._close(hosted)
        if not disk.sync.failed:
            await self._burials.bury(hosted, disk)

    async def _close(self, hosted: Hosted) -> Disk:
        """The caller holds the lock of its name. Returns where it was."""
        await self.released(hosted)
        self._moves.cancel(hosted)
        self._following.let_go(hosted)
        await self._following.released(hosted)
        disk = self._homes[hosted.key][1]
        disk.sync.forget(hosted)
        await disk.sync.quiet()  # a round may be writing into the directory that is about to be renamed
        del self._homes[hosted.key]
        hosted.log.close(clean=False)
        return disk

    # -- the disk's fate ----------------------------------------------------------------------------------------------------

    def retire(self, disk: Disk) -> None:
        """Everything on it goes offline with 56 and stays so."""
        for hosted, home in self._homes.values():
            self.places.check(hosted, home)
            if home is disk:
                hosted.offline = True
                self._appends.refuse_waiting(hosted, Refusal(int(ErrorCode.KAFKA_STORAGE_ERROR), "the log directory failed"))
                self._readers.wake(hosted.key)

    async def close(self) -> None:
        """No more work: what is open stays open, for whoever closes the logs."""
        self._timers.close()
        self._unconfigured.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._burials.close()
