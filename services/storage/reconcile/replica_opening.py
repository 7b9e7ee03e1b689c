"""The opening of a replica: the choice of its directory, the state it begins with, and what happens if it is damaged.

A damaged log outside the ISR, while another node leads, is of no use any more. It is set aside, and the replica begins empty and
copies the leader's log. Until then the controller is asked to take it out of the ISR (WITHDRAW). The same is asked for a log that
cannot be opened for now, since its disk is full or cannot be read. It is also asked when a read finds damage: others lead then,
if they can.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from libs.cluster.records import STORAGE, PartitionState, Topic
from libs.commitlog.model.errors import DirectoryDamaged, LogDamaged
from libs.commitlog.partition_log.log import Log
from libs.telemetry.logs import fields
from services.storage.core.replication.leader.replica import Replica, recovered_high_watermark
from services.storage.core.replication.leadership import assigned_directory, choose_directory, is_dispensable
from services.storage.disks import missing_directories
from services.storage.disks.disks import Disk
from services.storage.disks.replica_placement import ReplicaPlacement
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.topic_settings import TopicConfigs, log_config
from services.storage.reconcile.log_opening import TROUBLE, LogOpening
from services.storage.threads.timers import Timers

log = logging.getLogger("elections")

RETRY_S = 5.0
DAMAGE = (LogDamaged, DirectoryDamaged)


class ReplicaOpening:
    """The openings. The caller holds the lock of the partition's name."""

    def __init__(
        self,
        partitions: PartitionTable,
        placement: ReplicaPlacement,
        log_opening: LogOpening,
        configs: TopicConfigs,
        timers: Timers,
        *,
        forget_deleted: Callable[[Disk], Awaitable[bool]],
        on_effects: Callable[[Partition], None],
    ) -> None:
        """`forget_deleted` makes the checkpoints of a disk name only partitions that are there now."""
        self._partitions = partitions
        self._disks = placement.disks
        self._log_opening = log_opening
        self._configs = configs
        self._assignments = placement.assignments
        self._withdrawals = placement.withdrawals
        self._requested = placement.requested
        self._timers = timers
        self._forget_deleted = forget_deleted
        self._on_effects = on_effects

    async def open(
        self, key: Key, topic: Topic, state: PartitionState, again: Callable[[], None]
    ) -> tuple[Partition, Disk] | None:
        """Opens a replica. None: not now. `again` is called later if time may help; another image may help too."""
        assigned = assigned_directory(state, self._partitions.node_id)
        disk = self._disks.holding(key) or self._disks.disk_that_lost(key, topic.name, assigned)
        if disk is None:
            if self._disks.expects(key) and not is_dispensable(state, self._partitions.node_id):
                self._refuse_to_begin_empty(key, topic)
                return None
            target = self._target_directory(key, state, assigned)
            if assigned and target != assigned:
                # Only once the state names it: from then on nobody takes an empty log elsewhere for this one.
                self._assignments.request(key, target)
                self._timers.later(RETRY_S, again)
                return None
            disk = self._disks.choose(key, partial(choose_directory, assigned=target))
        if disk is None or disk.sync.failed:
            self._partitions.broken.add(key)
            members = self._partitions.image.members(STORAGE)
            missing_directories.report(
                key, topic, state, self._partitions.node_id, members=members, failed=self._disks.some_unusable
            )
            return None
        try:
            opened = await self._open_or_copy_anew(disk, key, topic, state)
        except TROUBLE as error:
            self._partitions.broken.add(key)
            disk.partitions.discard(key)
            self._log_opening.report(disk, key, topic.name, error)
            if isinstance(error, DAMAGE):
                self._withdrawals.withdraw(key)
            else:
                self._withdrawals.suspend(key)
            if not disk.sync.failed:
                self._timers.later(RETRY_S, again)
            return None
        self._partitions.broken.discard(key)
        self._disks.no_longer_incoming(key)
        self._requested.forget(key)
        self._withdrawals.reinstate(key)
        self._withdrawals.resume(key)
        partition = self._new_partition(disk, key, topic, opened)
        if assigned != disk.directory_id:
            self._assignments.report(key, disk.directory_id)
        return partition, disk

    def _target_directory(self, key: Key, state: PartitionState, assigned: str) -> str:
        """The directory for a replica without one. A request goes before the controller's choice, unless the replica is needed
        already."""
        requested = self._requested.directory_id(key)
        is_new = all(member.node_id != self._partitions.node_id for member in state.isr) and assigned in self._disks.directory_ids
        return requested if requested and (is_new or not assigned) else assigned

    def _refuse_to_begin_empty(self, key: Key, topic: Topic) -> None:
        """Withdraws a replica whose log is elsewhere: begun empty, it would pass for the one with the acknowledged records."""
        if key not in self._partitions.broken:
            details = {"topic": topic.name, "partition": key[1]}
            log.error("replica has no log here: it was to move from a log directory that is missing", extra=fields(**details))
        self._partitions.broken.add(key)
        self._withdrawals.withdraw(key)

    async def _open_or_copy_anew(self, disk: Disk, key: Key, topic: Topic, state: PartitionState) -> Log:
        """Opens a log, or begins an empty one if a damaged one is not needed. Raises what `TROUBLE` names."""
        # Each move raises the partition epoch. So no other log of it, in a directory that is not here, has moved so often.
        moves = state.partition_epoch
        try:
            return await self._log_opening.open(disk, key, topic.name, log_config(self._configs.of(topic.name)), moves)
        except DAMAGE as damage:
            if not is_dispensable(state, self._partitions.node_id):
                raise
            self._log_opening.report(disk, key, topic.name, damage)
            await self.set_aside(disk, key, topic.name)
        return await self._log_opening.open(disk, key, topic.name, log_config(self._configs.of(topic.name)), moves)

    async def set_aside(self, disk: Disk, key: Key, topic: str) -> None:
        """Sets aside a closed log: the next opening begins empty. Raises OSError."""
        path = ""
        try:
            path = await disk.set_aside(key, topic)
        except FileNotFoundError:
            pass  # nothing was left of it
        self._log_opening.forget(key)
        await self._forget_deleted(disk)
        details = {"topic": topic, "partition": key[1], "leader": self._leader(key), "path": path}
        log.warning("damaged log set aside, the replica is copied anew", extra=fields(**details))

    def _leader(self, key: Key) -> int:
        state = self._partitions.image.partition(*key)
        return state.leader if state is not None else -1

    def _new_partition(self, disk: Disk, key: Key, topic: Topic, opened: Log) -> Partition:
        config = self._configs.of(topic.name)  # it may have changed meanwhile
        replica = Replica(
            self._partitions.node_id,
            log_end=opened.log_end_offset,
            durable=opened.durable_offset,
            high_watermark=recovered_high_watermark(
                disk.high_watermark(key),
                log_start=opened.log_start_offset,
                durable=opened.durable_offset,
                synced=config.synced,
            ),
            synced=config.synced,
        )
        traffic = self._partitions.traffic.of(topic.name)
        partition = Partition(key, topic.name, opened, replica, config, disk.sync, self._on_effects, traffic)
        partition.configure(config)
        partition.offline = disk.sync.failed
        partition.failed_reads.on_damage = partial(self._withdrawals.suspend, key)
        disk.sync.request_round(partition)
        return partition
