"""The storage service in miniature: it drives logs on one disk in the order in which the service does, without a loop or threads.

Each act is one method, and notes in the model what its caller may rely on from then on, in that very moment and not earlier.
"""

from collections.abc import Callable
from random import Random

from libs.clock import Monotonic, WallMs
from libs.commitlog import sync
from libs.commitlog.config import LogConfig
from libs.commitlog.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from libs.commitlog.errors import LogWriteError
from libs.commitlog.log import BatchMeta, Log
from libs.commitlog.segment import FileRegistry
from libs.commitlog.sync import SyncTargets
from libs.wire.batches import BatchHeader
from libs.wire.markers import Marker, build_marker, read_marker
from libs.wire.records import Record, build_batch
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel, PartitionModel

PATH = "/logs"


class StillClock:
    """Time does not matter here."""

    def wall_ms(self) -> WallMs:
        return WallMs(1_000_000)

    def monotonic(self) -> Monotonic:
        return Monotonic(1000.0)


class Node:
    """Opens everything on the disk, as a starting process does. Raises what opening raises."""

    def __init__(self, disk: SimulatedDisk, config: LogConfig, new_id: bytes) -> None:
        self.disk, self.config = disk, config
        self.registry = FileRegistry()
        self.directory = LogDirectory.open(PATH, disk, new_id=new_id, node_id=1)
        self.logs: dict[bytes, Log] = {}
        self.listed = self.directory.list_partitions()
        recovery = self.directory.read_checkpoint(RECOVERY_POINTS)
        starts = self.directory.read_checkpoint(LOG_START_OFFSETS)
        for found in self.listed:
            name = found.topic, found.partition
            self.logs[found.topic_id] = self._open_log(*name, found.path, recovery.get(name, 0), starts.get(name, 0))
        self.retired = False
        self._segments_before = 0
        self.failed: set[bytes] = set()
        self.round: list[tuple[PartitionModel, SyncTargets]] | None = None
        self.running = False

    def _open_log(self, topic: str, index: int, path: str, recovery_point: int, start: int) -> Log:
        return Log.open(
            *(path, topic, index, self.config, self.disk),
            registry=self.registry,
            clock=StillClock(),
            clean=self.directory.was_clean,
            recovery_point=recovery_point,
            log_start_offset=start,
        )

    # --- partitions

    def create(self, model: DiskModel, partition: PartitionModel) -> None:
        model.partitions[partition.topic_id] = partition
        path = self.directory.create_partition(partition.topic, partition.index, partition.topic_id)
        partition.stage, partition.named = "present", True
        self.logs[partition.topic_id] = self._open_log(partition.topic, partition.index, path, 0, 0)

    def delete(self, partition: PartitionModel) -> str:
        """Returns where its files are now."""
        partition.stage = "deleting"
        self.logs.pop(partition.topic_id).close(clean=False)
        path = self.directory.schedule_deletion(partition.topic, partition.index, partition.topic_id)
        partition.stage = "gone"
        return path

    # --- appending

    def append(self, partition: PartitionModel, batches: list[bytearray], meanwhile: Callable[[], None]) -> None:
        """Records producers first, then writes: what `Appends` does in a turn. `meanwhile` happens in between."""
        log = self.logs[partition.topic_id]
        metas = []
        for batch in batches:
            header = BatchHeader.at(batch)
            marker = read_marker(bytes(batch)) if header.is_control else None
            if marker is not None:
                log.producers.record_marker(header, header.base_offset, marker)
            else:
                log.producers.record(header, header.base_offset)
            metas.append(
                BatchMeta(
                    *(header.base_offset, header.last_offset, header.size, header.max_timestamp, header.last_offset),
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
            partition.keep(len(partition.headers) - len(batches))
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
        count = min(partition.count_before(offset), len(partition.headers))
        partition.cutting, partition.rewound = partition.end_of(count), True
        self.disk.sometimes("truncation between capture and mark", self.round is not None)
        try:
            log.truncate_to(offset)
        except LogWriteError:
            self.failed.add(partition.topic_id)  # half-way: it stays so until the log is opened again
            return
        partition.keep(count)
        partition.durable = min(partition.durable, partition.end)
        partition.refused.clear()
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
        finally:
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
                if partition.durable == partition.end and partition.topic_id not in self.failed:
                    partition.refused.clear()

    def write_checkpoints(self, model: DiskModel) -> None:
        logs = [(partition, self.logs[partition.topic_id]) for partition in model.present() if partition.topic_id in self.logs]
        name = {id(log): (partition.topic, partition.index) for partition, log in logs}
        for file, offsets in (
            (HIGH_WATERMARKS, {name[id(log)]: partition.durable for partition, log in logs}),
            (RECOVERY_POINTS, {name[id(log)]: log.recovery_point for _, log in logs}),
            (LOG_START_OFFSETS, {name[id(log)]: log.log_start_offset for _, log in logs}),
        ):
            self.directory.write_checkpoint(file, offsets)

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


def make_batch(
    random: Random, offset: int, epoch: int, *, size: int, producer_id: int = -1, sequence: int = -1, transactional: bool = False
) -> bytearray:
    """One to four records; timestamps wander."""
    timestamp = 1000 + offset * 3 + random.randrange(60)
    count = random.choice((1, 1, 2, 4))
    records = [Record(b"%d" % (offset + i), random.randbytes(size), timestamp + i) for i in range(count)]
    if producer_id < 0:
        return build_batch(records, base_offset=offset, leader_epoch=epoch)
    return build_batch(
        *(records,),
        base_offset=offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )


def make_marker(random: Random, offset: int, epoch: int, producer_id: int) -> bytearray:
    return build_marker(
        Marker(aborts=random.random() < 0.6, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1000 + offset * 3,
        base_offset=offset,
        leader_epoch=epoch,
    )
