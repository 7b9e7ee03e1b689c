"""The storage node: follows the cluster image, serves RPC, and ties appends, syncs, fetches and partitions together.

Order of a start: lock → incarnation → image → log directories → logs → RPC → membership. It registers only once it can lead, and
leads only when a partition state names the incarnation that registered (Rule: restarts).
Order of a stop: others lead what they can → no more appends → final sync → logs closed → clean mark → lease revoked, so that
nobody is elected in its place while its last answers are still on their way.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import STORAGE
from libs.commitlog.files.sync import run_round
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.log_layout import LOG_LAYOUT
from libs.rpc.contracts.ownership import CLAIM
from libs.rpc.contracts.storage import (
    ALTER_LOG_DIRS,
    APPEND,
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    FETCH,
    LIST_OFFSETS,
    OPEN_FILE,
)
from libs.rpc.contracts.transactions import WRITE_MARKERS
from libs.runtime.children import Children
from libs.runtime.controllers import Controllers
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.process import refuse_newer_cluster
from libs.runtime.starting_anew import start_anew
from libs.telemetry.logs import fields
from libs.transactions.transaction_coordinators import TransactionCoordinators
from services.storage.cleanup.background_tasks import BackgroundTasks
from services.storage.cleanup.delete_records import DeleteRecordsRequests
from services.storage.config import BrokerConfigs, StorageConfig
from services.storage.controlled_shutdown import hand_over
from services.storage.core.effects import EffectHandlers
from services.storage.core.lagging import lagging_replicas
from services.storage.core.replication.leadership import assigned_directory, hosts
from services.storage.disks.directory_assignments import DirectoryAssignments
from services.storage.disks.disk_opening import open_disks
from services.storage.disks.disk_reads import DiskReads
from services.storage.disks.disk_space import DiskSpace
from services.storage.disks.disks import Disk, Disks
from services.storage.disks.replica_placement import ReplicaPlacement
from services.storage.disks.requested_directories import RequestedDirectories
from services.storage.disks.volume_stamps import VolumeStamps
from services.storage.disks.withdrawals import ReplicaWithdrawals
from services.storage.environment import Environment
from services.storage.fetch.fetches import Fetches
from services.storage.fetch.file_descriptors import FileDescriptorRequests
from services.storage.fetch.list_offsets import ListOffsetsRequests
from services.storage.fetch.log_layout import LogLayoutRequests
from services.storage.fetch.lookup_steps import LOOKUP_NICE, LOOKUP_PROCESSES, LookupSteps
from services.storage.fetch.preferred_read_replicas import PreferredReadReplicas
from services.storage.image_saving import ImageSaving
from services.storage.logs.checkpoints import Checkpoints
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.logs.node_logs import NodeLogs
from services.storage.moving.alter_log_dirs import LogDirAlterations
from services.storage.moving.leftovers import resolve_duplicates, restart_moves
from services.storage.moving.log_dir_description import LogDirDescription
from services.storage.moving.moves import Moves
from services.storage.moving.switching import Switching
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from services.storage.partition.effects import EffectQueue
from services.storage.partition.late_transactions import LateTransactions
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.log_files import LogFiles
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_meters import PartitionMeters
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.produce.appends import Appends
from services.storage.produce.transaction_markers import TransactionMarkers
from services.storage.reconcile.log_opening import LogOpening
from services.storage.reconcile.reconciler import PartitionClients, Reconciler
from services.storage.reconcile.recovery import Recovery
from services.storage.reconcile.suspended_disks import SuspendedDisks
from services.storage.registration import StorageRegistration
from services.storage.replication.follower.fetcher_manager import FetcherManager
from services.storage.replication.follower.log_starts import FollowedLogStarts
from services.storage.replication.follower.truncation import Truncation
from services.storage.replication.leader.leadership import LeaderReplication
from services.storage.replication.leader.waiting_readers import WaitingReaders
from services.storage.storage_meters import StorageMeters

log = logging.getLogger(__name__)

OPENING = "opening logs"
CLOSED_PER_ROUND = 256
MARK_S_MAX = 2.0
"""The longest wait of a stop for the mark on a failed disk."""

BATCH_OPENERS = max(1, len(os.sched_getaffinity(0)) - 1)
"""Processes that open produced batches. The event loop needs a core too."""


class StorageNode:
    """The storage node. `start` returns when it is registered; `ready` tells its progress until then.

    Public attributes are the parts that tests look at. Those that need a log directory are None before `start`.
    """

    def __init__(self, config: StorageConfig, environment: Environment) -> None:
        incarnation = environment.identity.incarnation
        self._config = config
        self._incarnation = incarnation
        self.environment = environment
        self._loop = asyncio.get_running_loop()
        self._state = "starting"
        self._loaded = False
        marks = MetadataMarks(environment.fs, config.data_dir)
        self.image_follower = ImageFollower(environment.store, on_went_back=start_anew(environment.die, marks))
        self.registration = StorageRegistration(config, environment, self.image_follower, marks)
        self.partitions = PartitionTable(config.node_id, incarnation, config.topic_series_max)
        self._registry = FileRegistry(environment.open_files)
        self._log_files = LogFiles(environment.fs, self._registry, environment.clock)
        self._broker_configs = BrokerConfigs(lambda: self.partitions.image, config.node_id, config.static)
        self.meters = StorageMeters(environment.metrics, self.partitions)
        environment.metrics.registry.register(PartitionMeters(self.partitions, config.partition_series_max))
        environment.metrics.registry.register(LateTransactions(self.partitions, environment.clock))
        self._controller = Controllers(
            self.registration.hello,
            environment.identity.host_id,
            environment.transport,
            lambda: self.fetchers.unreachable() if self.fetchers is not None else (),
        )
        self._checks = LeaderChecks(config.node_id, environment.store)
        self.disk_reads = DiskReads(lambda path: self.disks.reads_at(path))
        self.lookup_steps = LookupSteps(self.disk_reads, environment.children("lookups", LOOKUP_PROCESSES, LOOKUP_NICE))
        read_replicas = PreferredReadReplicas(self.partitions, self._broker_configs)
        self.fetches = Fetches(self.partitions, self.meters, read_replicas, self._checks, self.disk_reads)
        self.leader_side = LeaderReplication(
            self.partitions,
            self.meters,
            self._controller,
            self._broker_configs,
            self._checks,
            self.disk_reads,
            on_slow_followers=lambda nodes: self._report_soon(self.registration.report_slow_followers(nodes)),
        )
        self._ends = AcknowledgedEnds(self.partitions)
        self._waiting_readers = WaitingReaders(self.fetches, self.leader_side.pulls, self._ends)
        self.appends = Appends(
            self.partitions,
            environment.clock,
            self.meters,
            self._checks,
            children=environment.children("batches", BATCH_OPENERS, 0),
            children_max=BATCH_OPENERS,
            confirm=self.leader_side.confirmations.confirm,
            on_appended=self.leader_side.pulls.appended,
            readers_wait=self.fetches.waiting_on,
            coordinators=TransactionCoordinators(self.registration.hello, environment.identity.host_id, environment.transport),
            on_committed=self.leader_side.slow_followers.committed,
        )
        self._markers = TransactionMarkers(self.appends)
        self._effects = EffectQueue(
            EffectHandlers(
                answer_produces=self.appends.answer_committed,
                wake_fetches=self._waiting_readers.committed,
                notify_pulls=lambda partition: self.leader_side.pulls.committed(partition.key),
                report_log_start=self._report_log_start,
                wake_record_deletions=lambda partition: partition.replica.wake_start_watchers(),
                change_isr=self.leader_side.isr_changes.consider,
                report_isr=self.leader_side.isr_changes.report,
            )
        )
        self.disks = Disks(())
        self._volume_stamps = VolumeStamps(
            config.node_id, incarnation, environment.store, lambda: self.image_follower.image, config.volume_stamp_s
        )
        self.open_logs: OpenLogs[Disk] = OpenLogs(self.partitions)
        self.disk_space = DiskSpace(
            environment.fs, config.free_disk_percent_min, lambda: self.disks, self.meters.offline, self._logs_bytes
        )
        environment.metrics.registry.register(self.disk_space)
        self.reconciler: Reconciler | None = None
        self._assignments: DirectoryAssignments | None = None
        self._withdrawals: ReplicaWithdrawals | None = None
        self._suspended_disks: SuspendedDisks | None = None
        self.checkpoints: Checkpoints | None = None
        self._log_starts: LogStartOffsets | None = None
        self.fetchers: FetcherManager | None = None
        self.moves: Moves | None = None
        self.background: BackgroundTasks | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._retirement_marks: list[asyncio.Future[None]] = []
        image_files = environment.offload("image", 1)
        self._image_saving = ImageSaving(environment.fs, config.data_dir, image_files, environment.clock.wall_ms)

    def ready(self) -> tuple[bool, str]:
        if self._state == OPENING:
            return False, self._opening_progress()
        if self._state != "serving":
            return False, self._state
        if not self.disks.usable:
            return False, "every log directory has failed"
        stalled = [disk.path for disk in self.disks.all if disk.sync.stalled]
        if stalled:
            return False, f"a sync of {stalled[0]} hangs"
        if full := self.disks.full_paths:
            return False, f"log directory full, appends are refused: {full[0]}"
        return True, ""

    def in_sync(self) -> tuple[bool, str]:
        """Readiness, and every replica of this node in sync: the node that a rolling restart stops next may then be another."""
        ready, reason = self.ready()
        if not ready:
            return False, reason
        lagging = list(lagging_replicas(self.partitions.image, self._config.node_id, self._incarnation))
        return not lagging, f"{len(lagging)} replicas are not in sync, such as {lagging[0]}" if lagging else ""

    def debug(self) -> Mapping[str, Callable[[], object]]:
        """For the admin port's /debug."""
        return {
            "partitions": self.partitions.debug,
            "following": lambda: self.fetchers.debug() if self.fetchers is not None else None,
            "moves": lambda: self.moves.debug() if self.moves is not None else None,
            "cleaner": lambda: self.background.cleaning.debug() if self.background is not None else None,
        }

    def _logs_bytes(self) -> dict[str, int]:
        """The bytes of the open logs, by log directory."""
        sizes = {disk.path: 0 for disk in self.disks.usable}
        for partition, disk in self.open_logs.all():
            if disk.path in sizes:
                sizes[disk.path] += partition.log.size
        return sizes

    # -- start ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the node. Raises DirectoryLocked, DirectoryOwnerMismatch, DirectoryDamaged, OSError if it cannot run here."""
        self._state = "waiting for the metadata store"
        await self.registration.first_image()
        refuse_newer_cluster(self.image_follower.image, self.environment.identity.version)
        cluster_id = await self._cluster_id()
        self._state = "opening log directories"
        await self.registration.refuse_if_running()
        self._controller.follow(self.image_follower.image)
        self.image_follower.subscribe(lambda _, new: self._controller.follow(new))
        coordinators = self.appends.verification.coordinators
        coordinators.follow(self.image_follower.image)
        self.image_follower.subscribe(lambda _, new: coordinators.follow(new))
        self.registration.read_survival()
        opened = await open_disks(self._config, self.environment, cluster_id, self, self.meters.offline)
        self.disks = Disks(opened, len(self._config.directories))
        self.disk_space.start(opened)
        await resolve_duplicates(self.disks, self.environment.fs, self._assigned_directory)
        placement = self._place_replicas(self.disks)
        self._assignments, self._withdrawals = placement.assignments, placement.withdrawals
        self.checkpoints = Checkpoints(self.disks, self.open_logs)
        self._log_starts = LogStartOffsets(self.environment.fs, self.open_logs, self.checkpoints)
        logs = NodeLogs(self.disks, self.open_logs, self.checkpoints, self._log_starts, self.disk_reads)
        self.fetchers = self._make_fetchers(logs)
        self._recovery = Recovery(self._recovery_processes)
        self.reconciler = reconciler = Reconciler(
            self.partitions,
            placement,
            self.open_logs,
            LogOpening(self._log_files, self._recovery),
            PartitionClients(self.appends, self._waiting_readers, self.fetchers),
            before_removal=self.checkpoints.forget_deleted,
            on_effects=self._effects.add,
            broker_configs=self._broker_configs,
        )
        self.moves = self._make_moves(reconciler, self.checkpoints)
        self._suspended_disks = SuspendedDisks(self.open_logs, reconciler.reconsider, self.fetchers, self._withdrawals)
        self._state = OPENING
        self.image_follower.subscribe(reconciler.follow)
        reconciler.follow(type(self.image_follower.image)(), self.image_follower.image)
        await reconciler.settled()
        await reconciler.set_aside_strays()
        await restart_moves(logs, reconciler.is_missing, self.moves)
        self._loaded = True
        self._state = "registering"
        await self._listen(self._log_starts, reconciler, self.moves, placement.requested)
        self._assignments.start()
        self.leader_side.start()
        self.background = BackgroundTasks(self._config, self.environment, self._broker_configs, self.partitions, logs)
        self.background.start()
        await self._withdrawals.report_before_registration()
        await self.registration.register()
        self._image_saving.follow(ClusterImage(), self.image_follower.image)
        self.image_follower.subscribe(self._image_saving.follow)
        self.fetchers.begin()
        self._withdrawals.start()
        self._volume_stamps.start()
        self._state = "serving"
        log.info("serving", extra=fields(incarnation=self._incarnation, logs=len(self.open_logs.all())))

    def _opening_progress(self) -> str:
        expected = sum(hosts(state, self._config.node_id) for _, _, state in self.image_follower.image.states())
        progress = f"{OPENING}: {len(self.open_logs.all())} of {expected} are open"
        left_bytes = self._recovery.left_bytes
        return f"{progress}, {left_bytes / (1 << 20):.0f} MiB to recover" if left_bytes else progress

    async def _cluster_id(self) -> str:
        """The id of the cluster, which the first controller gives. Until then there is nothing to serve."""
        while not self.image_follower.image.cluster_id:
            changed = asyncio.Event()
            unsubscribe = self.image_follower.subscribe(lambda old, new, changed=changed: changed.set())  # type: ignore[misc]
            try:
                if not self.image_follower.image.cluster_id:
                    await changed.wait()
            finally:
                unsubscribe()
        return self.image_follower.image.cluster_id

    def _recovery_processes(self) -> Children:
        return self.environment.children("recovery", self._config.recovery_processes or len(os.sched_getaffinity(0)), 0)

    def _connect(self, address: str, storage_node: int) -> RpcClient:
        return RpcClient(address, self.registration.hello, self.environment.transport, expected=(STORAGE, storage_node))

    def _place_replicas(self, disks: Disks) -> ReplicaPlacement:
        node_id, incarnation = self._config.node_id, self._incarnation

        def image() -> ClusterImage:
            return self.image_follower.image

        return ReplicaPlacement(
            disks,
            DirectoryAssignments(node_id, incarnation, image, self._controller, disks.opened_ids),
            ReplicaWithdrawals(node_id, incarnation, image, self._controller),
            RequestedDirectories(self.partitions, disks),
        )

    def _make_fetchers(self, logs: NodeLogs) -> FetcherManager:
        return FetcherManager(
            self.environment.identity,
            self._connect,
            Truncation(self.partitions, logs.checkpoints),
            FollowedLogStarts(logs.starts),
            self.environment.metrics,
            self._broker_configs,
        )

    def _make_moves(self, reconciler: Reconciler, checkpoints: Checkpoints) -> Moves:
        frozen, directory_checks = reconciler.frozen, reconciler.directory_checks
        switching = Switching(
            self._log_files,
            self.open_logs,
            frozen,
            directory_checks,
            checkpoints,
            on_durable=self.became_durable,
            delete_source=reconciler.delete_source,
        )
        return Moves(self._log_files, self.open_logs, frozen, directory_checks, switching, self._broker_configs)

    def _assigned_directory(self, key: Key) -> str:
        state = self.image_follower.image.partition(*key)
        return assigned_directory(state, self._config.node_id) if state is not None else ""

    async def _listen(
        self, log_starts: LogStartOffsets, reconciler: Reconciler, moves: Moves, requested: RequestedDirectories
    ) -> None:
        directories = LogDirAlterations(
            self._config.directories,
            self.partitions,
            self.disks,
            self.open_logs,
            moves,
            requested,
            released=reconciler.released,
        )
        confirmations = self.leader_side.confirmations
        methods = {
            APPEND: self.appends.accept,
            CLAIM: self.appends.owners.accept,
            WRITE_MARKERS: self._markers.accept,
            FETCH: self.fetches.accept,
            LIST_OFFSETS: ListOffsetsRequests(self.partitions, self.lookup_steps, confirmations.confirm, self._ends).accept,
            DELETE_RECORDS: DeleteRecordsRequests(
                self.partitions, self.disks, log_starts, confirmations.confirmed, self._ends
            ).accept,
            DESCRIBE_LOG_DIRS: LogDirDescription(self.disks, self.open_logs, moves, self.environment.fs).accept,
            ALTER_LOG_DIRS: directories.accept,
            OPEN_FILE: FileDescriptorRequests(self._registry, self.environment.fs, self.disk_reads).accept,
            **self.leader_side.methods,
            LOG_LAYOUT: LogLayoutRequests(self.partitions, self._registry, self.disk_reads).accept,
        }
        went_back = await self._volume_stamps.compare(self.disks.usable)
        await self.registration.listen(
            methods,
            self.disks.directory_ids,
            self.disks.full_paths,
            went_back,
            on_turn_start=self._effects.begin_turn,
            on_turn_end=self._turn_ended,
        )

    # -- events -------------------------------------------------------------------------------------------------------------

    def _turn_ended(self) -> None:
        """Called when all frames of one read of an RPC connection were accepted."""
        try:
            self.appends.end_turn()
        finally:
            self._effects.end_turn()

    def _report_log_start(self, partition: Partition) -> None:
        if self.fetchers is not None:
            self.fetchers.log_start_rose(partition)

    def round_ended(self, synced: Sequence[Partition], seconds: float) -> None:
        self._effects.begin_turn()
        try:
            for partition in synced:
                self.became_durable(partition)
        finally:
            self._effects.end_turn()
        self.meters.flush_time.observe(seconds)
        if self.fetchers is not None:
            self.fetchers.round_ended()

    def became_durable(self, partition: Partition) -> None:
        """Takes a log's higher durable offset. Its leader is told when the round has ended."""
        partition.replica.synced_to(partition.log.durable_offset)
        if self.fetchers is not None:
            self.fetchers.synced(partition)

    def sync_stalled(self, scheduler: SyncScheduler[Partition], *, stalled: bool) -> None:
        """Stops appends to a disk while its sync hangs. Others are to lead its partitions."""
        (self.meters.stalled.add if stalled else self.meters.stalled.discard)(scheduler.disk)
        log.error("sync hangs" if stalled else "sync returned", extra=fields(path=scheduler.disk))
        if self._suspended_disks is not None:
            self._suspended_disks.changed(scheduler)

    def room_changed(self, scheduler: SyncScheduler[Partition]) -> None:
        """Has others lead the partitions of a full disk, and follows them again when it has room."""
        if self._suspended_disks is not None:
            self._suspended_disks.changed(scheduler)
        self._report_directories_soon()

    def retired(self, scheduler: SyncScheduler[Partition], error: Exception) -> None:
        """Takes a failed disk's partitions offline, for good, and reports the directories that are left."""
        log.critical("log directory retired", extra=fields(path=scheduler.disk, reason=error))
        self.meters.offline.add(scheduler.disk)
        assert self.reconciler is not None
        disk = self.disks.of(scheduler)
        self.reconciler.retire(disk)
        # The process stays, even without any directory. After a failed fsync the page cache may hold records that the disk lacks,
        # and a restarted process would recover from it. The mark prevents that.
        for mark in (partial(disk.directory.mark_retired, str(error)), self.registration.forget_survival):
            self._retirement_marks.append(disk.files.submit(mark))
            self._retirement_marks[-1].add_done_callback(partial(_marked, disk.path))
        self._report_directories_soon()

    def _report_directories_soon(self) -> None:
        self._report_soon(self.registration.report_directories(self.disks.directory_ids, self.disks.full_paths))

    def _report_soon(self, report: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(report, name="a report in the member record")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- stop ---------------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops cleanly: acknowledged records are on disk, and the next start reads nothing again."""
        self._state = "stopping"
        await hand_over(self._config.node_id, self.registration, self.image_follower, self._config.hand_over_s)
        self.appends.stop()
        if self.moves is not None:
            await self.moves.close()
        if self.fetchers is not None:
            await self.fetchers.close()
        for disk in self.disks.usable:
            await disk.sync.drain()
        self._waiting_readers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.background is not None:
            await self.background.stop()
        if self._log_starts is not None:
            await self._log_starts.close()
        if self._retirement_marks:
            await asyncio.wait(self._retirement_marks, timeout=MARK_S_MAX)
        if self._assignments is not None:
            await self._assignments.close()
        if self._withdrawals is not None:
            await self._withdrawals.close()
        await self._volume_stamps.close()
        await self.disk_space.close()
        await self.leader_side.close()
        await self.registration.stop_listening()
        await self.image_follower.close()
        await self._image_saving.close()
        if self.reconciler is not None:
            await self.reconciler.close()
            await self._close_logs()
        self.appends.close()
        self.lookup_steps.close()
        await self.appends.verification.coordinators.close()
        self._effects.close()
        self._checks.close()
        for disk in self.disks.all:
            disk.close()
        await self.registration.leave()
        # The heartbeats go on until the end: a silent node would be taken for dead while its logs are closed.
        await self._controller.close()
        self._state = "stopped"

    async def _close_logs(self) -> None:
        """Closes all logs. A directory is marked clean only if every log in it was opened, and closed cleanly."""
        assert self.checkpoints is not None
        await self.checkpoints.write_high_watermarks()
        for disk in self.disks.usable:
            await disk.sync.drain()  # the rounds of upkeep and retention
            logs = [partition.log for partition, log_disk in self.open_logs.all() if log_disk is disk]
            try:
                await self._close_on(disk, logs)
                await self.checkpoints.write_recovery_points()
                if self._loaded and not disk.unopened():
                    await disk.files.submit(disk.directory.mark_clean)
            except OSError as error:
                log.error("log directory not closed cleanly", extra=fields(path=disk.path, reason=error))

    async def _close_on(self, disk: Disk, logs: list[Log]) -> None:
        """Closes logs of one disk. Many share a round, but no more than may be open until its end. Raises OSError."""
        together = max(1, min(CLOSED_PER_ROUND, self.environment.open_files.capacity // 16))
        for first in range(0, len(logs), together):
            closing = logs[first : first + together]
            targets_by_log = await asyncio.gather(*[disk.logs.submit(closing_log.last_targets) for closing_log in closing])
            targets = [closing_log for closing_log in targets_by_log if closing_log is not None]
            if targets:
                await disk.files.submit(partial(run_round, targets, self.environment.fs, disk.path))
            for closing_log, log_targets in zip(closing, targets_by_log, strict=True):
                if log_targets is not None:
                    closing_log.mark_synced(log_targets)


def _marked(path: str, done: "asyncio.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("log directory could not be marked as retired", extra=fields(path=path, reason=error))
