"""The storage service in miniature: it drives logs on one disk in the order in which the service does, without a loop or threads.

Each act is one method, and notes in the model what its caller may rely on from then on, in that very moment and not earlier.
What the service does in many turns of its loop is in `upkeep.py`.
"""

from collections.abc import Callable, Collection, Mapping
from random import Random

from libs.clock import Monotonic, WallMs
from libs.commitlog.checkpoints.offset_checkpoint import Entry, Name
from libs.commitlog.files import sync
from libs.commitlog.files.sync import SyncTargets
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogWriteError, RecoveryTooLarge
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.commitlog.partition_log.log import BatchMeta, Log
from libs.commitlog.partition_log.recovery_job import OpenLogRequest, recover
from libs.commitlog.segments.segment import FileRegistry
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import read_marker
from services.storage.disks.disks import scan
from services.storage.partition.partition import Key
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel, PartitionModel

PATH = "/logs"


class StillClock:
    """Time does not matter here."""

    def wall_ms(self) -> WallMs:
        return WallMs(1_000_000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def monotonic(self) -> Monotonic:
        return Monotonic(1000.0)


class ChildKilled(BaseException):
    """A process that recovers a log ends in the middle of it."""


class Node:
    """Opens everything on the disk, as a starting process does. Raises what opening raises.

    `deleted`: topics that the cluster does not know any more; as the service does, nobody opens them.
    `children`: logs that have anything to read are recovered by a child process first, which may be killed.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        config: LogConfig,
        new_id: bytes,
        children: Random | None = None,
        deleted: Collection[bytes] = (),
    ) -> None:
        self.disk, self.config = disk, config
        self.registry = FileRegistry()
        self.logs: dict[bytes, Log] = {}
        self._high_watermarks: dict[bytes, int] = {}
        self.scanned = scan(PATH, disk, new_id=new_id, node_id=1, cluster_id="")
        self.directory = self.scanned.directory
        self.listed = self.directory.list_partitions()
        for found in self.listed:
            if found.topic_id in deleted:
                continue
            key = found.topic_id, found.partition
            log = self._open(self._how_to_open(key, found.topic, found.path), children)
            # What the checkpoint says is at least seen by everyone in sync (services/storage/core/replication/leader/replica.py).
            committed = self.scanned.checkpoints[HIGH_WATERMARKS].get(key, 0)
            self._high_watermarks[found.topic_id] = min(committed, log.log_end_offset)
            self.logs[found.topic_id] = log
        self.retired = False
        self._segments_before = 0
        self.failed: set[bytes] = set()
        self.uncleanable: set[bytes] = set()
        self.round: list[tuple[PartitionModel, SyncTargets]] | None = None
        self.running = False
        self.working = ""
        """What is done off the loop now, beside rounds."""
        self.swapping = False

    @property
    def cleaned_offsets(self) -> dict[Key, int]:
        return self.scanned.checkpoints[CLEANED_OFFSETS]

    def _how_to_open(self, key: Key, topic: str, path: str) -> OpenLogRequest:
        """The same choice as `Disk.open_request` (services/storage/disks/disks.py)."""
        checkpoints, index = self.scanned.checkpoints, key[1]
        lost = self.scanned.lost.get((topic, index))
        committed = checkpoints[HIGH_WATERMARKS].get(key, 0)
        log_checkpoints = LogCheckpoints(
            clean=self.directory.was_clean,
            recovery_point=checkpoints[RECOVERY_POINTS].get(key, 0),
            log_start_offset=checkpoints[LOG_START_OFFSETS].get(key, 0),
            committed_offset=lost.offset if lost is not None and lost.is_of(key[0]) else committed,
            is_start_known=self.scanned.is_start_known or key in checkpoints[LOG_START_OFFSETS],
        )
        return OpenLogRequest(path, topic, index, self.config, self.disk, log_checkpoints)

    def _open(self, how: OpenLogRequest, children: Random | None) -> Log:
        """The same steps as `LogOpening` (services/storage/reconcile/log_opening.py)."""
        if children is None:
            return how.open(self.registry, StillClock())
        try:
            return how.open(self.registry, StillClock(), read_bytes_max=0)
        except RecoveryTooLarge:
            pass
        self.disk.sometimes("recovered in a child process")
        kill = self.disk.kill_after(children.randrange(25), ChildKilled) if children.random() < 0.5 else None
        try:
            recover(how, lambda _: None)
        except ChildKilled:
            self.disk.sometimes("child process killed amid a recovery")
        finally:
            if kill is not None:
                kill()
        return how.open(self.registry, StillClock())

    # --- partitions

    def create(self, model: DiskModel, partition: PartitionModel) -> None:
        name = partition.topic, partition.index
        lost = self.scanned.lost.pop(name, None)
        assert lost is None or not lost.is_of(partition.topic_id), f"{partition} is taken for one that lost its directory"
        model.partitions[partition.topic_id] = partition
        path = self.directory.create_partition(*name, partition.topic_id)
        partition.stage, partition.named = "present", True
        self.logs[partition.topic_id] = self._how_to_open(partition.key, partition.topic, path).open(self.registry, StillClock())

    def delete(self, partition: PartitionModel, *, stray: bool) -> str:
        """Returns where its files are now. A stray stays there."""
        name = partition.topic, partition.index
        partition.stage = "deleting"
        log = self.logs.pop(partition.topic_id, None)
        if log is not None:
            log.close(clean=False)
        self.scanned.lost.pop(name, None)
        for offsets in self.scanned.checkpoints.values():
            offsets.pop(partition.key, None)
        self._high_watermarks.pop(partition.topic_id, None)
        put_aside = self.directory.set_aside if stray else self.directory.schedule_deletion
        path = put_aside(*name, partition.topic_id)
        partition.stage = "gone"
        return path

    def remove(self, model: DiskModel, path: str) -> None:
        """Removes a deleted partition. Its entries in checkpoints go before its directory: else a new one of that name would
        seem to lack data."""
        self.directory.remove_files(path)
        self.write_high_watermarks(model)
        self.write_recovery_points(model)
        self.directory.remove(path)

    # --- appending

    def append(self, partition: PartitionModel, batches: list[bytearray], meanwhile: Callable[[], None]) -> None:
        """Records producers first, then writes: what `Appends` does in a turn. `meanwhile` happens in between."""
        log = self.logs[partition.topic_id]
        metas = []
        end = partition.end
        for batch in batches:
            header = BatchHeader.at(batch)
            marker = read_marker(bytes(batch)) if header.is_control else None
            if marker is not None:
                log.producers.record_marker(header, header.base_offset, marker)
            else:
                log.producers.record(header, header.base_offset)
            metas.append(
                BatchMeta(
                    header.base_offset,
                    header.last_offset,
                    header.size,
                    header.max_timestamp,
                    header.last_offset,
                    header.leader_epoch,
                )
            )
            partition.add(bytes(batch))
        partition.staged = len(batches)
        meanwhile()
        segments = self._segments_before = len(log.segments)
        try:
            log.append(batches, metas)
        except LogWriteError as error:
            partition.refused.update(bytes(batch) for batch in batches)
            partition.cut(end)
            if error.fatal:
                self.failed.add(partition.topic_id)
        finally:
            partition.staged = 0
        self.disk.sometimes("roll between capture and mark", self.round is not None and len(log.segments) > segments)

    def rolled(self, partition: PartitionModel) -> bool:
        """The append that runs has begun a segment."""
        log = self.logs.get(partition.topic_id)
        return log is not None and len(log.segments) > self._segments_before

    def begin_epoch(self, partition: PartitionModel, epoch: int) -> None:
        log = self.logs[partition.topic_id]
        log.epochs.assign(epoch, log.log_end_offset)

    def roll(self, partition: PartitionModel) -> None:
        self.logs[partition.topic_id].roll()

    def truncate(self, partition: PartitionModel, offset: int) -> None:
        log = self.logs[partition.topic_id]
        end = partition.cutting = partition.end_if_cut(offset, log.log_start_offset)
        if partition.content.swaps:
            # A crash may leave the end where the last batch before the cut ended, if a cleaner emptied the segments between.
            kept = partition.headers[: partition.content.first_from(end)]
            partition.cutting = min(end, kept[-1].last_offset + 1 if kept else log.log_start_offset)
        partition.rewound = True
        self.disk.sometimes("truncation between capture and mark", self.round is not None)
        self.disk.sometimes("truncation while a swap was under way", bool(partition.others))
        try:
            found = log.truncate_to(offset)
        except LogWriteError:
            self.failed.add(partition.topic_id)  # half-way: it stays so until the log is opened again
            return
        assert found == end, f"{partition}: cut to {found}, not {end}"
        partition.cut(end)
        partition.durable = min(partition.durable, partition.end)
        self._high_watermarks[partition.topic_id] = min(self.high_watermark(partition.topic_id), log.log_end_offset)
        partition.refused.clear()
        partition.others.clear()
        partition.cutting = None

    # --- durability

    def capture(self, model: DiskModel, random: Random) -> None:
        """A round is about to start; what is appended from now on belongs to the next."""
        captured = []
        for partition in model.present():
            log = self.logs.get(partition.topic_id)
            targets = log.sync_targets(resume_point=random.random() < 0.2) if log is not None else None
            if targets is not None:
                captured.append((partition, targets))
        self.round = captured

    def run(self) -> bool:
        """False if the disk failed; then nothing is marked, ever."""
        assert self.round is not None
        self.running = True
        try:
            sync.run_round([targets for _, targets in self.round], self.disk, PATH)
        except OSError:
            self.retired = True
        self.running = False
        return not self.retired

    def mark(self) -> None:
        captured, self.round = self.round, None
        for partition, targets in captured or []:
            log = self.logs.get(partition.topic_id)
            if log is not None:
                log.mark_synced(targets)
                partition.named = True
                partition.durable = max(partition.durable, log.durable_offset)
                committed = min(partition.durable, log.log_end_offset)
                self._high_watermarks[partition.topic_id] = max(self.high_watermark(partition.topic_id), committed)
                if partition.durable == partition.end and partition.topic_id not in self.failed:
                    partition.refused.clear()

    # --- checkpoints, as services/storage/logs/checkpoints.py writes them

    def write_checkpoints(self, model: DiskModel) -> None:
        self.write_high_watermarks(model)
        self.write_recovery_points(model)
        self.write_log_starts(model)

    def write_recovery_points(self, model: DiskModel) -> None:
        self._write(model, RECOVERY_POINTS, lambda log: log.recovery_point, {})

    def write_high_watermarks(self, model: DiskModel) -> None:
        for partition, log in self._logs(model):
            durable = min(self.high_watermark(partition.topic_id), log.durable_offset)
            partition.committed = max(partition.committed, durable)
        of_logs = {log: self.high_watermark(topic_id) for topic_id, log in self.logs.items()}
        self._write(model, HIGH_WATERMARKS, lambda log: min(of_logs[log], log.durable_offset), self.scanned.lost)

    def high_watermark(self, topic_id: bytes) -> int:
        """The high watermark, which never lies before the log's start."""
        return max(self._high_watermarks.get(topic_id, 0), self.logs[topic_id].log_start_offset)

    def write_log_starts(self, model: DiskModel) -> None:
        self._write(model, LOG_START_OFFSETS, lambda log: log.next_start_offset, {})

    def write_cleaned_offsets(self, model: DiskModel) -> None:
        offsets = self.cleaned_offsets
        entries = {(one.topic, one.index): Entry(offsets[one.key], one.topic_id) for one in model.present() if one.key in offsets}
        self.directory.write_checkpoint(CLEANED_OFFSETS, entries)

    def _write(self, model: DiskModel, file: str, number: Callable[[Log], int], more: Mapping[Name, Entry]) -> None:
        entries = {(one.topic, one.index): Entry(number(log), one.topic_id) for one, log in self._logs(model)}
        self.directory.write_checkpoint(file, {**more, **entries})

    def _logs(self, model: DiskModel) -> list[tuple[PartitionModel, Log]]:
        return [(one, self.logs[one.topic_id]) for one in model.present() if one.topic_id in self.logs]

    # --- the end

    def close_clean(self, model: DiskModel) -> None:
        self.write_checkpoints(model)
        for partition in model.present():
            log = self.logs[partition.topic_id]
            log.close(clean=True)
            partition.durable = max(partition.durable, log.durable_offset)
        model.clean = None
        self.directory.mark_clean()
        model.clean = True
        self.directory.close()
