"""From a partition that this node shall have to its open log: in which directory, from which state, and what if it is damaged.

A damaged log of a replica that is outside the ISR, while another node leads, is worth nothing any more: it is set aside, and the
replica begins empty and copies what the leader has. Until then the controller is asked to take it out of the ISR (WITHDRAW). The
same is asked for one that cannot be opened for now, since its disk is full or does not read, and for one that turns out to be
damaged while it is served: others lead then, if they can.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from libs.cluster.records import PartitionState, Topic
from libs.commitlog.errors import DirectoryDamaged, LogDamaged
from libs.commitlog.log import Log
from libs.telemetry.logs import fields
from services.storage import missing_directories
from services.storage.core.leadership import assigned_directory, choose_directory, is_dispensable
from services.storage.core.replica import Replica, recovered_high_watermark
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted, Key
from services.storage.moving.wanted import WantedDirectories
from services.storage.openings import TROUBLE, Openings
from services.storage.partitions import Partitions
from services.storage.placements import Placements
from services.storage.timers import Timers
from services.storage.topic_settings import TopicConfigs, log_config
from services.storage.withdrawals import Withdrawals

log = logging.getLogger(__name__)

RETRY_S = 5.0
DAMAGE = (LogDamaged, DirectoryDamaged)


class ReplicaOpening:
    """The caller holds the lock of the partition's name."""

    def __init__(
        self,
        partitions: Partitions,
        disks: Disks,
        openings: Openings,
        configs: TopicConfigs,
        placements: Placements,
        withdrawals: Withdrawals,
        wanted: WantedDirectories,
        timers: Timers,
        *,
        forget_former_selves: Callable[[], Awaitable[None]],
    ) -> None:
        """`forget_former_selves`: makes checkpoints on the disks speak only of what is there now."""
        self._partitions = partitions
        self._disks = disks
        self._openings = openings
        self._configs = configs
        self._placements = placements
        self._withdrawals = withdrawals
        self._wanted = wanted
        self._timers = timers
        self._forget_former_selves = forget_former_selves

    async def open(self, key: Key, topic: Topic, state: PartitionState, again: Callable[[], None]) -> tuple[Hosted, Disk] | None:
        """None: it cannot be opened now, and `again` is called later, if that may change. An image that changes may help too."""
        assigned = assigned_directory(state, self._partitions.node_id)
        disk = self._disks.holding(key) or self._disks.that_lost(topic.name, key[1], assigned)
        if disk is None:
            if self._disks.awaits(key) and not is_dispensable(state, self._partitions.node_id):
                self._lies_elsewhere(key, topic)
                return None
            where = self._where(key, state, assigned)
            if assigned and where != assigned:
                # Not before the state names it: from then on nobody takes an empty log elsewhere for this one.
                self._placements.ask(key, where)
                self._timers.later(RETRY_S, again)
                return None
            disk = self._disks.choose(key, partial(choose_directory, assigned=where))
        if disk is None or disk.sync.failed:
            self._partitions.broken.add(key)
            missing_directories.tell(key, topic, state, self._partitions.node_id, failed=self._disks.lacks_some)
            return None
        try:
            opened = await self._open_or_copy_anew(disk, key, topic, state)
        except TROUBLE as error:
            self._partitions.broken.add(key)
            disk.hosted.discard(key)
            self._openings.tell(disk, key, topic.name, error)
            if isinstance(error, DAMAGE):
                self._withdrawals.withdraw(key)
            else:
                self._withdrawals.stand_down(key)
            if not disk.sync.failed:
                self._timers.later(RETRY_S, again)
            return None
        self._partitions.broken.discard(key)
        self._disks.found(key)
        self._wanted.settled(key)
        self._withdrawals.served(key)
        self._withdrawals.stand_up(key)
        hosted = self._hosted(disk, key, topic, opened)
        if assigned != disk.directory_id:
            self._placements.settled(key, disk.directory_id)
        return hosted, disk

    def _where(self, key: Key, state: PartitionState, assigned: str) -> str:
        """Of one that is nowhere. What an operator wants goes before what the controller chose, if nobody counts on it yet."""
        wanted = self._wanted.directory_id(key)
        is_new = all(member.node_id != self._partitions.node_id for member in state.isr) and assigned in self._disks.directory_ids
        return wanted if wanted and (is_new or not assigned) else assigned

    def _lies_elsewhere(self, key: Key, topic: Topic) -> None:
        """Beginning anew, empty, where it was to go would pass for what was acknowledged."""
        if key not in self._partitions.broken:
            what = {"topic": topic.name, "partition": key[1]}
            log.error("replica was on its way from a log directory that is not here, and its log with it", extra=fields(**what))
        self._partitions.broken.add(key)
        self._withdrawals.withdraw(key)

    async def _open_or_copy_anew(self, disk: Disk, key: Key, topic: Topic, state: PartitionState) -> Log:
        """Raises what `TROUBLE` names."""
        # Each move raises the partition's epoch: no log of it that lies in a directory that is not here now has moved so often.
        moves = state.partition_epoch
        try:
            return await self._openings.open(disk, key, topic.name, log_config(self._configs.of(topic.name)), moves)
        except DAMAGE as damage:
            if not is_dispensable(state, self._partitions.node_id):
                raise
            self._openings.tell(disk, key, topic.name, damage)
            await self.set_aside(disk, key, topic.name)
        return await self._openings.open(disk, key, topic.name, log_config(self._configs.of(topic.name)), moves)

    async def set_aside(self, disk: Disk, key: Key, topic: str) -> None:
        """A log that is not open: the next opening begins empty. Raises OSError."""
        path = ""
        try:
            path = await disk.set_aside(key, topic)
        except FileNotFoundError:
            pass  # nothing was left of it
        self._openings.forget(key)
        await self._forget_former_selves()
        what = {"topic": topic, "partition": key[1], "leader": self._leader(key), "path": path}
        log.warning("damaged log set aside, the replica is copied anew", extra=fields(**what))

    def _leader(self, key: Key) -> int:
        state = self._partitions.image.partition(*key)
        return state.leader if state is not None else -1

    def _hosted(self, disk: Disk, key: Key, topic: Topic, opened: Log) -> Hosted:
        config = self._configs.of(topic.name)  # it may have changed meanwhile
        replica = Replica(
            self._partitions.node_id,
            log_end=opened.log_end_offset,
            durable=opened.durable_offset,
            high_watermark=recovered_high_watermark(
                disk.high_watermark(topic.name, key[1]),
                log_start=opened.log_start_offset,
                durable=opened.durable_offset,
                synced=config.synced,
            ),
            synced=config.synced,
        )
        hosted = Hosted(key, topic.name, opened, replica, config, disk.sync)
        hosted.configure(config)
        hosted.offline = disk.sync.failed
        hosted.failed_reads.on_damage = partial(self._withdrawals.stand_down, key)
        disk.sync.owe(hosted)
        return hosted
