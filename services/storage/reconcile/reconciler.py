"""The reconciler: it makes the partitions on this node what the cluster image says. It opens logs, takes roles, revokes them,
deletes.

What an image takes away ends at once, on the event loop: leadership, and partitions of deleted topics. What it gives needs the
disk. So each partition has a task of its own, which always works towards the newest image.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from typing import NamedTuple
from weakref import WeakValueDictionary

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState, Topic
from libs.telemetry.log_burst import LogBurst
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from services.storage.config import BrokerConfigs
from services.storage.core.produce.admission import Refusal, effective_min_in_sync
from services.storage.core.replication.leadership import Follow, Lead, decide_role, hosts, is_dispensable
from services.storage.disks.directory_checks import DirectoryChecks
from services.storage.disks.disks import Disk
from services.storage.disks.replica_placement import ReplicaPlacement
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.topic_settings import TopicConfigs
from services.storage.produce.appends import Appends
from services.storage.reconcile.deletion import LogDeletion
from services.storage.reconcile.frozen_partitions import FrozenPartitions
from services.storage.reconcile.image_changes import changed_keys
from services.storage.reconcile.lead_traces import LeadTraces
from services.storage.reconcile.log_opening import LogOpening
from services.storage.reconcile.replica_opening import ReplicaOpening
from services.storage.reconcile.strays import set_aside_strays
from services.storage.replication.follower.fetcher_manager import FetcherManager
from services.storage.replication.leader.waiting_readers import WaitingReaders
from services.storage.threads.timers import Timers

log = logging.getLogger("elections")

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DELETE_DELAY = "log.segment.delete.delay.ms"
PARTITIONS_PER_TURN = 20
"""After so many partitions, requests get their turn."""


class PartitionClients(NamedTuple):
    """Those who work with partitions: each is called when this node becomes leader or follower, or is neither any more."""

    appends: Appends
    waiting_readers: WaitingReaders
    fetchers: FetcherManager


class Reconciler:
    """The follower of images. Each partition that needs work has a task; they share the disks' worker threads."""

    def __init__(
        self,
        partitions: PartitionTable,
        placement: ReplicaPlacement,
        open_logs: OpenLogs[Disk],
        log_opening: LogOpening,
        clients: PartitionClients,
        *,
        before_removal: Callable[[Disk], Awaitable[bool]],
        on_effects: Callable[[Partition], None],
        broker_configs: BrokerConfigs,
        traces: LeadTraces,
    ) -> None:
        self._traces = traces
        self._image_at = 0.0
        """When the newest image came, in loop time."""
        self._node_id = partitions.node_id
        self._incarnation = partitions.incarnation
        self._partitions = partitions
        self._disks = placement.disks
        self._open_logs = open_logs
        self._log_opening = log_opening
        self._appends, self._waiting_readers, self._fetchers = clients
        self._withdrawals = placement.withdrawals
        self._configs = TopicConfigs(partitions.node_id, broker_configs.static)
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._rework: set[Key] = set()
        self._to_configure: dict[Partition, None] = {}
        self._name_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock is there while somebody holds it or waits for it."""
        self._loop = asyncio.get_running_loop()
        self._leading_lines = LogBurst(log, "leading", self._loop)
        self._timers = Timers()
        self.frozen = FrozenPartitions(partitions, self._tasks.keys(), self._fetchers.stop_fetching, self._reconcile_again)
        self._replica_opening = ReplicaOpening(
            partitions,
            placement,
            log_opening,
            self._configs,
            self._timers,
            forget_deleted=before_removal,
            on_effects=on_effects,
        )
        self.directory_checks = DirectoryChecks(partitions, placement)
        self._deletion = LogDeletion(lambda: broker_configs.integer(DELETE_DELAY), before_removal)

    # -- following --------------------------------------------------------------------------------------------------------

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Takes a new image. For the first one, `old` is the empty image."""
        self._partitions.image = new
        self._image_at = self._loop.time()
        if changed := self._configs.follow(new):
            topics = {name for kind, name in changed if kind == "topic"}
            all_too = any(kind != "topic" for kind, _ in changed)
            was_behind = bool(self._to_configure)
            self._to_configure |= {
                partition: None for partition, _ in self._open_logs.all() if all_too or partition.topic in topics
            }
            if not was_behind:
                self._configure_some()
        # of a new topic both the state and the record differ, and the work is done once
        for key in dict.fromkeys(changed_keys(old, new)):
            self._revoke(key)
            self._schedule(key)
        self._fetchers.follow_image(old, new)
        self._withdrawals.follow_image()
        self._appends.recheck()

    def reconsider(self, key: Key) -> None:
        """Works on a partition again: the obstacle to its role may be gone."""
        self._schedule(key)

    async def settled(self) -> None:
        """Returns when everything that images asked for is done, or has failed."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def is_missing(self, key: Key) -> bool:
        """Whether a replica belongs here, and is not open."""
        return key not in self._open_logs and self._desired(key) is not None

    # -- moving to another directory ------------------------------------------------------------------------------------------

    def _reconcile_again(self, key: Key) -> None:
        """Takes up what images asked of a partition while it was frozen."""
        self._revoke(key)
        self._schedule(key)

    async def delete_source(self, partition: Partition, disk: Disk) -> None:
        """Deletes the files that a moved replica left."""
        async with self._lock_of(str(partition)):
            if disk.holds(partition.key) and not disk.sync.failed:
                await self._deletion.delete_files(partition, disk, message="removed from the log directory that it left")

    async def released(self, partition: Partition) -> None:
        """Returns when neither a move nor a truncation touches the log."""
        await self.frozen.released(partition)
        await self._fetchers.released(partition)

    async def set_aside_strays(self) -> None:
        await set_aside_strays(self._disks, self._partitions, lambda key: self._desired(key) is not None, self._lock_of)

    def _lock_of(self, name: str) -> asyncio.Lock:
        return self._name_locks.setdefault(name, asyncio.Lock())

    def _desired(self, key: Key) -> tuple[Topic, PartitionState] | None:
        """The topic and state of a replica that belongs here.

        A topic's record is its commit: partition states without one are not, or no longer, a topic's.
        """
        image = self._partitions.image
        topic = image.topics_by_id.get(key[0])
        if topic is None or key[1] >= topic.partitions:
            return None
        state = image.partition(*key)
        return (topic, state) if state is not None and hosts(state, self._node_id) else None

    def _revoke(self, key: Key) -> None:
        """Revokes at once what this node no longer leads or hosts, and answers those who wait for it."""
        partition = self._partitions.by_key.get(key)
        desired = self._desired(key)
        if desired is None:
            self._appends.forget(key)
            self._partitions.broken.discard(key)
            self._withdrawals.reinstate(key)
            self._withdrawals.resume(key)
            if (name := self._log_opening.forget(key)) is not None:
                self._disks.forget_lost(name, key[1])
        role = decide_role(desired[1], node_id=self._node_id, incarnation=self._incarnation) if desired is not None else None
        opened_log = self._open_logs.get(key)
        if opened_log is not None and not (isinstance(role, Follow) and self._fetchers.follows(opened_log[0], role)):
            self._fetchers.stop_fetching(opened_log[0])
        if partition is None:
            return
        if role is None:
            del self._partitions.by_key[key]
            partition.replica.become_follower(partition.leader_epoch)
            self._appends.refuse_waiting(partition, Refusal(UNKNOWN_TOPIC_OR_PARTITION))
            self._waiting_readers.wake(key)
            return
        if partition.leading and not (isinstance(role, Lead) and role.leader_epoch == partition.leader_epoch):
            self._stop_leading(partition, -1 if isinstance(role, Lead) else role.leader, role.leader_epoch)

    def _stop_leading(self, partition: Partition, leader: int, leader_epoch: int) -> None:
        partition.replica.become_follower(leader_epoch)
        self._appends.refuse_waiting(partition, Refusal(NOT_LEADER_OR_FOLLOWER, None, leader, leader_epoch))
        self._waiting_readers.wake(partition.key)

    def _configure_some(self) -> None:
        """Configures some partitions: a broker config may concern thousands."""
        for partition in list(islice(self._to_configure, PARTITIONS_PER_TURN)):
            del self._to_configure[partition]
            if self._open_logs.disk_of(partition) is not None:
                self._configure(partition)
        if self._to_configure:
            self._loop.call_soon(self._configure_some)

    def _configure(self, partition: Partition) -> None:
        config = self._configs.of(partition.topic)
        if config == partition.config:
            return
        desired = self._desired(partition.key)
        partition.configure(config)
        replicas = desired[1].replication_factor if desired is not None else 1
        minimum = effective_min_in_sync(config.min_insync_replicas, replicas)
        became_synced = config.synced and not partition.replica.synced
        partition.replica.configure(synced=config.synced, min_in_sync=minimum)
        if became_synced and self._open_logs.is_in_use(partition):
            partition.sync.request_round(partition)
            partition.sync.start_round()

    # -- working ----------------------------------------------------------------------------------------------------------

    def _schedule(self, key: Key) -> None:
        if key in self._tasks:
            self._rework.add(key)
        elif key in self._open_logs or self._desired(key) is not None:
            task = self._tasks[key] = self._loop.create_task(self._work(key))
            task.add_done_callback(partial(self._work_ended, key))

    def _work_ended(self, key: Key, task: "asyncio.Task[None]") -> None:
        del self._tasks[key]
        if key in self._rework:
            self._rework.discard(key)
            if not task.cancelled():
                self._schedule(key)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "reconciliation of a partition failed", exc_info=error, extra=fields(topic_id=key[0].hex(), partition=key[1])
            )
        self._appends.recheck()

    async def _work(self, key: Key) -> None:
        desired = self._desired(key)
        opened_log = self._open_logs.get(key)
        if desired is None:
            if opened_log is not None:
                await self._evict(opened_log[0])
            return
        topic, state = desired
        if opened_log is None:
            async with self._lock_of(f"{topic.name}-{key[1]}"):
                await self._delete_predecessor(topic.name, key)
                opened = await self._replica_opening.open(key, topic, state, partial(self._schedule, key))
                if opened is None:
                    return
                self._open_logs.put(*opened)
            partition = opened[0]
            desired = self._desired(key)
            if desired is None:
                self._rework.add(key)  # deleted while it was opened: the next run evicts it
                return
            if partition.sync.suspended:
                self._withdrawals.suspend(key)
        else:
            partition = opened_log[0]
            await self.released(partition)
            desired = self._desired(key)
            if desired is None:
                return  # the image that took it away has asked for another run
            if partition.failed_reads.damaged and is_dispensable(desired[1], self._node_id):
                await self._give_up(partition)
                self._rework.add(key)  # to be copied again from the leader
                return
        self._partitions.by_key[key] = partition
        disk = self._open_logs.disk_of(partition)
        assert disk is not None
        self._take_role(partition, disk, desired[1])
        self.directory_checks.check(partition, disk)

    def _take_role(self, partition: Partition, disk: Disk, state: PartitionState) -> None:
        """Takes the role in the state, with an open log."""
        role = decide_role(state, node_id=self._node_id, incarnation=self._incarnation)
        begins = isinstance(role, Lead) and not partition.leading
        if role.leader_epoch < (latest := partition.log_epoch) + begins:
            # Rule: nobody leads or follows in an epoch below its log's. It would cut records, or write an epoch twice. Nor does
            # anybody begin to lead in its log's own: another node has led in it, before the metadata store went back.
            facts = {"partition": str(partition), "leader_epoch": role.leader_epoch, "log_epoch": latest}
            log.error("metadata is older than the log, which waits for a later epoch", extra=fields(**facts))
            return
        if not isinstance(role, Lead):
            if partition.leading:
                self._stop_leading(partition, role.leader, role.leader_epoch)
            self._fetchers.follow(partition, disk, role)
            return
        self._fetchers.stop_fetching(partition)
        if role.leader_epoch < partition.leader_epoch or partition.offline:
            return
        if begins:
            # The epoch starts at the log's end, before the first write in it. The sync round of that write also writes the
            # epoch's start. After a crash in between, the batches themselves have the epoch.
            partition.log.epochs.assign(role.leader_epoch, partition.log_end_offset)
            partition.sync.request_round(partition)
            details = {"leader_epoch": role.leader_epoch, "log_end": partition.log_end_offset}
            self._leading_lines.write(partition=partition, **details)
        minimum = effective_min_in_sync(partition.config.min_insync_replicas, state.replication_factor)
        partition.replica.configure(synced=partition.config.synced, min_in_sync=minimum)
        partition.replica.become_leader(role)
        self._waiting_readers.wake(partition.key)
        partition.sync.start_round()
        if begins:
            self._traces.leads(partition, role.leader_epoch, self._image_at, self._loop.time())

    # -- opening and deleting -----------------------------------------------------------------------------------------------

    async def _delete_predecessor(self, topic: str, key: Key) -> None:
        """Deletes an open log of an earlier topic with the same name: a topic may be deleted and made again at once."""
        former = [
            partition
            for partition, _ in self._open_logs.all()
            if partition.topic == topic and partition.key[1] == key[1] and partition.key != key
        ]
        for partition in former:
            await self._delete(partition)

    async def _evict(self, partition: Partition) -> None:
        """Deletes a partition that left the image. Its name is free now; its files go after log.segment.delete.delay.ms."""
        async with self._lock_of(str(partition)):
            if partition.key in self._open_logs:  # else its successor deleted it
                await self._delete(partition)

    async def _give_up(self, partition: Partition) -> None:
        """Sets aside a log that a read found damaged, and that is not needed."""
        async with self._lock_of(str(partition)):
            self._partitions.by_key.pop(partition.key, None)
            disk = await self._close(partition)
            if not disk.sync.failed:
                await self._replica_opening.set_aside(disk, partition.key, partition.topic)

    async def _delete(self, partition: Partition) -> None:
        """Deletes a partition. The caller holds the lock of its name."""
        disk = await self._close(partition)
        if not disk.sync.failed:
            await self._deletion.delete_files(partition, disk)

    async def _close(self, partition: Partition) -> Disk:
        """Closes a log. The caller holds the lock of its name. Returns its disk."""
        await self.released(partition)
        if partition.cancel_move is not None:
            partition.cancel_move()
        self._fetchers.stop_fetching(partition)
        await self._fetchers.released(partition)
        disk = self._open_logs.disk_of(partition)
        assert disk is not None
        disk.sync.forget(partition)
        await disk.sync.wait_for_round()  # a round may write into the directory that is about to be renamed
        self._open_logs.remove(partition.key)
        partition.log.close(clean=False)
        return disk

    # -- the disk's fate ----------------------------------------------------------------------------------------------------

    def retire(self, disk: Disk) -> None:
        """Takes all partitions on a failed disk offline. They answer KAFKA_STORAGE_ERROR from now on."""
        for partition, log_disk in self._open_logs.all():
            self.directory_checks.check(partition, log_disk)
            if log_disk is disk:
                partition.offline = True
                self._appends.refuse_waiting(partition, Refusal(int(ErrorCode.KAFKA_STORAGE_ERROR), "the log directory failed"))
                self._waiting_readers.wake(partition.key)

    async def close(self) -> None:
        """Ends all work. Open logs stay open; the node closes them."""
        self._timers.close()
        self._to_configure.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._deletion.close()
