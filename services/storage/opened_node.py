"""A storage node whose log directories are open: its parts, how they are tied together, and the order in which they start.

Each part registers its stop when it starts, so a stop is the reverse of the start. What must outlive more than its own start
says, such as the answers of requests in flight, registers later or earlier, and a comment tells why.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import STORAGE
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
from libs.rpc.server.rpc_server import Accept
from libs.runtime.children import Children
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Stops
from libs.runtime.process import span_recorder
from libs.telemetry.definitions import with_pauses
from libs.telemetry.logs import fields
from libs.transactions.transaction_coordinators import TransactionCoordinators
from services.storage.cleanup.background_tasks import BackgroundTasks
from services.storage.cleanup.delete_records import DeleteRecordsRequests
from services.storage.config import BrokerConfigs, StorageConfig
from services.storage.controlled_shutdown import hand_over
from services.storage.core.effects import EffectHandlers
from services.storage.core.replication.leadership import assigned_directory, hosts
from services.storage.disks.directory_assignments import DirectoryAssignments
from services.storage.disks.disk_opening import OpenedDirectory, make_disk
from services.storage.disks.disk_reads import DiskReads
from services.storage.disks.disk_space import DiskSpace
from services.storage.disks.disks import Disk, Disks
from services.storage.disks.replica_placement import ReplicaPlacement
from services.storage.disks.requested_directories import RequestedDirectories
from services.storage.disks.volume_stamps import VolumeStamps
from services.storage.disks.withdrawals import ReplicaWithdrawals
from services.storage.environment import Environment
from services.storage.fetch.fetch_traces import FetchTraces
from services.storage.fetch.fetches import Fetches
from services.storage.fetch.file_descriptors import FileDescriptorRequests
from services.storage.fetch.list_offsets import ListOffsetsRequests
from services.storage.fetch.list_offsets_traces import ListOffsetsTraces
from services.storage.fetch.log_layout import LogLayoutRequests
from services.storage.fetch.lookup_steps import LOOKUP_NICE, LOOKUP_PROCESSES, LookupSteps
from services.storage.fetch.preferred_read_replicas import PreferredReadReplicas
from services.storage.image_saving import ImageSaving
from services.storage.logs.checkpoints import Checkpoints
from services.storage.logs.closing import close_logs
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.logs.node_logs import NodeLogs
from services.storage.moving.alter_log_dirs import LogDirAlterations
from services.storage.moving.leftovers import resolve_duplicates, restart_moves
from services.storage.moving.log_dir_description import LogDirDescription
from services.storage.moving.moves import Moves
from services.storage.moving.switching import Switching
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.effects import EffectQueue
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.log_files import LogFiles
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.produce.appends import Appends
from services.storage.produce.owner_questions import OwnerQuestions
from services.storage.produce.transaction_markers import TransactionMarkers
from services.storage.reconcile.lead_traces import LeadTraces
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

log = logging.getLogger("disks")

MARK_S_MAX = 2.0
"""The longest wait of a stop for the mark on a failed disk."""

BATCH_OPENERS = max(1, len(os.sched_getaffinity(0)) - 1)
"""Processes that open produced batches. The event loop needs a core too."""


class OpenedNode:
    """The node from its open log directories on. Call `open_replicas`, `listen` and `register`, in this order; `stops` ends it.

    Public attributes are the parts that tests look at.
    """

    def __init__(
        self,
        config: StorageConfig,
        environment: Environment,
        directories: Sequence[OpenedDirectory],
        *,
        image_follower: ImageFollower,
        registration: StorageRegistration,
        controllers: Controllers,
        partitions: PartitionTable,
        meters: StorageMeters,
        stops: Stops,
    ) -> None:
        self._config, self._environment = config, environment
        self._image_follower, self._registration = image_follower, registration
        self._partitions, self._meters = partitions, meters
        self._stops = stops
        self._loop = asyncio.get_running_loop()
        self._all_opened = False
        """Whether every replica's log was opened, or was found to be of no use."""
        self._reports: set[asyncio.Task[None]] = set()
        self.retirement_marks: list[asyncio.Future[None]] = []

        self.disks = Disks([make_disk(opened, config, environment, self) for opened in directories], len(config.directories))
        self._registry = FileRegistry(environment.open_files)
        self._log_files = LogFiles(environment.fs, self._registry, environment.clock)
        self._broker_configs = BrokerConfigs(lambda: partitions.image, config.node_id, config.static)
        self._checks = LeaderChecks(config.node_id, environment.store)
        self.disk_reads = DiskReads(self.disks.reads_at)
        self.open_logs: OpenLogs[Disk] = OpenLogs(partitions)
        self.disk_space = DiskSpace(environment.fs, config.free_disk_percent_min, self.disks, meters.offline, self._logs_bytes)
        environment.metrics.registry.register(self.disk_space)
        self._make_request_side(controllers)
        self._make_replica_side(controllers)
        self._volume_stamps = VolumeStamps(
            config.node_id, environment.identity.incarnation, environment.store, self._image, config.volume_stamp_s
        )
        image_files = environment.offload("image", 1)
        self._image_saving = ImageSaving(environment.fs, config.data_dir, image_files, environment.clock.wall_ms)
        # Threads, children and timers of these serve until all that `open_replicas` starts has stopped.
        for disk in self.disks.all:
            stops.add(disk.close)
        stops.add(self._checks.close)
        stops.add(self._owner_questions.close)
        stops.add(self._coordinators.close)
        stops.add(self.lookup_steps.close)
        stops.add(self.appends.close)
        stops.add(self._effects.close)

    def _make_request_side(self, controllers: Controllers) -> None:
        """Makes what serves RPC."""
        environment, partitions, meters = self._environment, self._partitions, self._meters
        hello, host_id = self._registration.hello, environment.identity.host_id
        recorder = span_recorder(environment.identity, environment.tracing, environment.clock)
        environment.metrics.watch_spans(recorder)
        self._append_traces, self._lead_traces = AppendTraces(recorder), LeadTraces(recorder)
        self._offset_traces = ListOffsetsTraces(partitions, recorder)
        fetch_traces = FetchTraces(partitions, recorder, self._append_traces.produced)
        self.lookup_steps = LookupSteps(self.disk_reads, environment.children("lookups", LOOKUP_PROCESSES, LOOKUP_NICE))
        read_replicas = PreferredReadReplicas(partitions, self._broker_configs)
        self.fetches = Fetches(partitions, meters, read_replicas, self._checks, self.disk_reads, fetch_traces)
        self.leader_side = LeaderReplication(
            partitions,
            meters,
            controllers,
            self._broker_configs,
            self._checks,
            self.disk_reads,
            self._append_traces.trail,
            on_slow_followers=lambda nodes: self._report_soon(self._registration.report_slow_followers(nodes)),
        )
        self._ends = AcknowledgedEnds(partitions)
        self._waiting_readers = WaitingReaders(self.fetches, self.leader_side.pulls, self._ends)
        self._coordinators = TransactionCoordinators(hello, host_id, environment.transport)
        self._owner_questions = OwnerQuestions(self._checks, controllers)
        self.appends = Appends(
            partitions,
            environment.clock,
            meters,
            self._checks,
            children=environment.children("batches", BATCH_OPENERS, 0),
            children_max=BATCH_OPENERS,
            confirm=self.leader_side.confirmations.confirm,
            ask_owner=self._owner_questions.ask,
            on_appended=self.leader_side.pulls.appended,
            readers_wait=self.fetches.waiting_on,
            coordinators=self._coordinators,
            on_committed=self.leader_side.slow_followers.committed,
            traces=self._append_traces,
        )
        self._effects = EffectQueue(
            EffectHandlers(
                answer_produces=self.appends.successes.answer_committed,
                wake_fetches=self._waiting_readers.committed,
                notify_pulls=lambda partition: self.leader_side.pulls.committed(partition.key),
                report_log_start=lambda partition: self.fetchers.log_start_rose(partition),
                wake_record_deletions=lambda partition: partition.replica.wake_start_watchers(),
                change_isr=self.leader_side.isr_changes.consider,
                report_isr=self.leader_side.isr_changes.report,
            )
        )

    def _make_replica_side(self, controllers: Controllers) -> None:
        """Makes what opens, follows, moves and keeps the logs."""
        config, environment, partitions = self._config, self._environment, self._partitions
        self._placement = placement = self._place_replicas(controllers)
        self.checkpoints = Checkpoints(self.disks, self.open_logs)
        self._log_starts = LogStartOffsets(environment.fs, self.open_logs, self.checkpoints)
        self._logs = logs = NodeLogs(self.disks, self.open_logs, self.checkpoints, self._log_starts, self.disk_reads)
        self.fetchers = FetcherManager(
            environment.identity,
            self._connect,
            Truncation(partitions, self.checkpoints),
            FollowedLogStarts(self._log_starts),
            environment.metrics,
            self._broker_configs,
        )
        self._recovery = Recovery(self._recovery_processes)
        self.reconciler = Reconciler(
            partitions,
            placement,
            self.open_logs,
            LogOpening(self._log_files, self._recovery),
            PartitionClients(self.appends, self._waiting_readers, self.fetchers),
            before_removal=self.checkpoints.forget_deleted,
            on_effects=self._effects.add,
            broker_configs=self._broker_configs,
            traces=self._lead_traces,
        )
        self.moves = self._make_moves()
        self._suspended_disks = SuspendedDisks(self.open_logs, self.reconciler.reconsider, self.fetchers, placement.withdrawals)
        self.background = BackgroundTasks(config, environment, self._broker_configs, partitions, logs)

    def _image(self) -> ClusterImage:
        return self._image_follower.image

    def _recovery_processes(self) -> Children:
        count = self._config.recovery_processes or len(os.sched_getaffinity(0))
        return self._environment.children("recovery", count, 0)

    def _connect(self, address: str, storage_node: int) -> RpcClient:
        return RpcClient(address, self._registration.hello, self._environment.transport, expected=(STORAGE, storage_node))

    def _place_replicas(self, controllers: Controllers) -> ReplicaPlacement:
        node_id, incarnation = self._config.node_id, self._environment.identity.incarnation
        return ReplicaPlacement(
            self.disks,
            DirectoryAssignments(node_id, incarnation, self._image, controllers, self.disks.opened_ids),
            ReplicaWithdrawals(node_id, incarnation, self._image, controllers),
            RequestedDirectories(self._partitions, self.disks),
        )

    def _make_moves(self) -> Moves:
        frozen, directory_checks = self.reconciler.frozen, self.reconciler.directory_checks
        switching = Switching(
            self._log_files,
            self.open_logs,
            frozen,
            directory_checks,
            self.checkpoints,
            on_durable=self.became_durable,
            delete_source=self.reconciler.delete_source,
        )
        return Moves(self._log_files, self.open_logs, frozen, directory_checks, switching, self._broker_configs)

    # -- views ------------------------------------------------------------------------------------------------------------

    def ready(self) -> tuple[bool, str]:
        """Whether its disks can serve."""
        if not self.disks.usable:
            return False, "every log directory has failed"
        stalled = [disk.path for disk in self.disks.all if disk.sync.stalled]
        if stalled:
            return False, f"a sync of {stalled[0]} hangs"
        if full := self.disks.full_paths:
            return False, f"log directory full, appends are refused: {full[0]}"
        return True, ""

    def opening_progress(self) -> str:
        expected = sum(hosts(state, self._config.node_id) for _, _, state in self._image().states())
        progress = f"{len(self.open_logs.all())} of {expected} are open"
        left_bytes = self._recovery.left_bytes
        return f"{progress}, {left_bytes / (1 << 20):.0f} MiB to recover" if left_bytes else progress

    def _logs_bytes(self) -> Generator[None, None, dict[str, int]]:
        """The bytes of the open logs, by log directory. It pauses at times."""
        sizes = {disk.path: 0 for disk in self.disks.usable}

        def add(logs: Sequence[tuple[Partition, Disk]]) -> None:
            for partition, disk in logs:
                if disk.path in sizes:
                    sizes[disk.path] += partition.log.size

        yield from with_pauses(self.open_logs.all(), add)
        return sizes

    # -- start ------------------------------------------------------------------------------------------------------------

    async def open_replicas(self) -> None:
        """Opens the logs of all replicas, and takes up what a former process left half done."""
        stops, image_follower = self._stops, self._image_follower
        self._coordinators.follow(image_follower.image)
        stops.add(image_follower.subscribe(lambda _, new: self._coordinators.follow(new)))
        self.disk_space.start()
        stops.add(self.disk_space.close)
        await resolve_duplicates(self.disks, self._environment.fs, self._assigned_directory)
        stops.add(self._end_retirement_marks)
        stops.add(self._end_reports)
        stops.add(self._close_logs)
        stops.add(self._image_saving.close)
        stops.add(self.reconciler.close)
        stops.add(image_follower.subscribe(self.reconciler.follow))
        stops.add(self._log_starts.close)
        stops.add(self.fetchers.close)
        self.reconciler.follow(ClusterImage(), image_follower.image)
        await self.reconciler.settled()
        await self.reconciler.set_aside_strays()
        stops.add(self.moves.close)
        await restart_moves(self._logs, self.reconciler.is_missing, self.moves)
        self._all_opened = True

    async def listen(self) -> None:
        """Answers RPC. Nobody elects this node before it is registered."""
        stops, registration = self._stops, self._registration
        went_back = await self._volume_stamps.compare(self.disks.usable)
        stops.add(registration.stop_listening)
        await registration.listen(
            self._methods(),
            self.disks.directory_ids,
            self.disks.full_paths,
            went_back,
            on_turn_start=self._effects.begin_turn,
            on_turn_end=self._turn_ended,
        )
        self._placement.assignments.start()
        stops.add(self._placement.assignments.close)
        self.leader_side.start()
        stops.add(self.leader_side.close)
        self.background.start()
        stops.add(self.background.stop)
        # A stop takes no more appends, syncs those that it has, and then answers who waits: the connections are still open.
        stops.add(self._waiting_readers.close)
        stops.add(self._sync_appends)
        stops.add(self.appends.stop)

    async def register(self) -> None:
        """Registers, follows and serves."""
        stops, image_follower, placement = self._stops, self._image_follower, self._placement
        await placement.withdrawals.report_before_registration()
        await self._registration.register()
        self._image_saving.follow(ClusterImage(), image_follower.image)
        stops.add(image_follower.subscribe(self._image_saving.follow))
        placement.withdrawals.start()
        stops.add(placement.withdrawals.close)
        self._volume_stamps.start()
        stops.add(self._volume_stamps.close)
        self.fetchers.begin()
        stops.add(self.fetchers.end)
        stops.add(self._hand_over)

    def _assigned_directory(self, key: Key) -> str:
        state = self._image().partition(*key)
        return assigned_directory(state, self._config.node_id) if state is not None else ""

    def _methods(self) -> Mapping[str, Accept]:
        """The handlers of requests, by RPC method."""
        fs, partitions = self._environment.fs, self._partitions
        directories = LogDirAlterations(
            self._config.directories,
            partitions,
            self.disks,
            self.open_logs,
            self.moves,
            self._placement.requested,
            released=self.reconciler.released,
        )
        confirmations = self.leader_side.confirmations
        record_deletions = DeleteRecordsRequests(partitions, self.disks, self._log_starts, confirmations.confirmed, self._ends)
        return {
            APPEND: self.appends.accept,
            CLAIM: self.appends.owners.accept,
            WRITE_MARKERS: TransactionMarkers(self.appends).accept,
            FETCH: self.fetches.accept,
            LIST_OFFSETS: ListOffsetsRequests(
                partitions, self.lookup_steps, confirmations.confirm, self._ends, self._offset_traces
            ).accept,
            DELETE_RECORDS: record_deletions.accept,
            DESCRIBE_LOG_DIRS: LogDirDescription(self.disks, self.open_logs, self.moves, self.reconciler.frozen, fs).accept,
            ALTER_LOG_DIRS: directories.accept,
            OPEN_FILE: FileDescriptorRequests(self._registry, fs, self.disk_reads).accept,
            **self.leader_side.methods,
            LOG_LAYOUT: LogLayoutRequests(partitions, self._registry, self.disk_reads).accept,
        }

    # -- events -------------------------------------------------------------------------------------------------------------

    def _turn_ended(self) -> None:
        """Called when all frames of one read of an RPC connection were accepted."""
        try:
            self.appends.end_turn()
        finally:
            self._effects.end_turn()

    def round_ended(self, synced: Sequence[Partition], seconds: float) -> None:
        self._effects.begin_turn()
        try:
            for partition in synced:
                self.became_durable(partition)
        finally:
            self._effects.end_turn()
        self._meters.flush_time.observe(seconds)
        self.fetchers.round_ended()

    def became_durable(self, partition: Partition) -> None:
        """Takes a log's higher durable offset. Its leader is told when the round has ended."""
        partition.replica.synced_to(partition.log.durable_offset)
        if partition.parked:
            now = asyncio.get_running_loop().time()
            self._append_traces.trail.note(partition.key, partition.node_id, partition.log.durable_offset, now)
        self.fetchers.synced(partition)

    def sync_stalled(self, scheduler: SyncScheduler[Partition], *, stalled: bool) -> None:
        """Stops appends to a disk while its sync hangs. Others are to lead its partitions."""
        (self._meters.stalled.add if stalled else self._meters.stalled.discard)(scheduler.disk)
        log.error("sync hangs" if stalled else "sync returned", extra=fields(path=scheduler.disk))
        self._suspended_disks.changed(scheduler)

    def room_changed(self, scheduler: SyncScheduler[Partition]) -> None:
        """Has others lead the partitions of a full disk, and follows them again when it has room."""
        self._suspended_disks.changed(scheduler)
        self._report_directories_soon()

    def retired(self, scheduler: SyncScheduler[Partition], error: Exception) -> None:
        """Takes a failed disk's partitions offline, for good, and reports the directories that are left."""
        log.critical("log directory retired", extra=fields(path=scheduler.disk, reason=error))
        self._meters.offline.add(scheduler.disk)
        disk = self.disks.of(scheduler)
        self.reconciler.retire(disk)
        # The process stays, even without any directory. After a failed fsync the page cache may hold records that the disk lacks,
        # and a restarted process would recover from it. The mark prevents that.
        for mark in (partial(disk.directory.mark_retired, str(error)), self._registration.forget_survival):
            self.retirement_marks.append(disk.files.submit(mark))
            self.retirement_marks[-1].add_done_callback(partial(_marked, disk.path))
        self._report_directories_soon()

    def _report_directories_soon(self) -> None:
        self._report_soon(self._registration.report_directories(self.disks.directory_ids, self.disks.full_paths))

    def _report_soon(self, report: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(report, name="a report in the member record")
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    # -- stop ---------------------------------------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        await hand_over(self._config.node_id, self._registration, self._image_follower, self._config.hand_over_s)

    async def _sync_appends(self) -> None:
        for disk in self.disks.usable:
            await disk.sync.drain()

    async def _end_reports(self) -> None:
        for task in self._reports:
            task.cancel()
        await asyncio.gather(*self._reports, return_exceptions=True)

    async def _end_retirement_marks(self) -> None:
        if self.retirement_marks:
            await asyncio.wait(self.retirement_marks, timeout=MARK_S_MAX)

    async def _close_logs(self) -> None:
        environment = self._environment

        def may_mark_clean() -> bool:
            return self._all_opened and not self._stops.failed  # a part that failed to stop might still write

        await close_logs(self._logs, environment.fs, environment.open_files, may_mark_clean=may_mark_clean)


def _marked(path: str, done: "asyncio.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("log directory could not be marked as retired", extra=fields(path=path, reason=error))
