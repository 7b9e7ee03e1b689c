"""The copy of a log in another log directory that is to replace it: Kafka's future log.

`TOPIC-PARTITION.<topic id>-future` is filled from the log while the log goes on. The last steps follow when both end at the same
offset and appends are stopped. First the copy takes over the state that batches do not tell, and is closed and synced. Then its
directory gets the partition's name. Then the name of its source is removed.

From the second step on two directories have one name, and `MOVES` tells which is newer. A crash at any step leaves exactly one
that counts, and it is complete. One thread at a time uses a future log, and it may block.
"""

from collections.abc import Mapping, Sequence

from libs.clock import Clock
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.sync import Lineage, sync_then_write, syncing
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import LogDirectory
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.recovery_job import OpenLogRequest
from libs.commitlog.partition_log.replicated_batches import FarAhead, read_replicated, record_producers
from libs.commitlog.producers.producer_state import ProducerEntry, ProducerState
from libs.commitlog.segments.reading import Slice
from libs.commitlog.segments.segment import FileRegistry
from libs.lean_dataclass import dataclass

BATCHES_AT_ONCE = 2000
SYNCED_BYTES = 16 << 20
"""The bytes after which a copy is synced: dirty bytes keep their files open."""


class SourceUnreadable(OSError):
    """The copied log cannot be read at that offset, or not any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """The partition of a future log, and the directory in which it is."""

    directory: LogDirectory
    topic: str
    partition: int
    topic_id: bytes
    config: LogConfig
    fs: FileSystem
    registry: FileRegistry
    clock: Clock

    def open(self, path: str, *, log_start_offset: int, committed_offset: int = 0) -> Log:
        """Opens a future log that was closed cleanly, or is new. Raises LogDamaged, OSError."""
        checkpoints = LogCheckpoints(clean=True, log_start_offset=log_start_offset, committed_offset=committed_offset)
        request = OpenLogRequest(path, self.topic, self.partition, self.config, self.fs, checkpoints)
        return request.open(self.registry, self.clock)


class FutureLog:
    """A future log; `begin` makes one. `lineage`: the lineage of the copied log when it was last checked."""

    def __init__(self, place: Place, path: str, log: Log, lineage: Lineage) -> None:
        self.place = place
        self.path = path
        self.lineage = lineage
        self.end_offset = log.log_end_offset
        self.size = 0
        self._log = log
        self._unsynced_bytes = 0

    @classmethod
    def begin(cls, place: Place, base_offset: int, start_offset: int, moves: int, lineage: Lineage) -> "FutureLog":
        """Makes an empty future log at `base_offset`. That may lie before the log's start, at the first offset of the batch that
        has the start. Raises OSError, LogDamaged."""
        path = place.directory.create_future(place.topic, place.partition, place.topic_id, moves)
        log = place.open(path, log_start_offset=base_offset)
        log.next_start_offset = start_offset
        log.advance_start()
        return cls(place, path, log, lineage)

    def copy(self, piece: Slice, leader_epoch: int) -> int:
        """Copies the whole batches of a piece that was read at this log's end, and returns their bytes. They are checked as a
        follower checks them. Raises SourceUnreadable, NotReplicable, LogWriteError, SyncFailed, OSError."""
        at = 0
        try:
            view = memoryview(piece.file.read(piece.length, piece.position))
        except OSError as error:
            raise SourceUnreadable(error.errno, error.strerror, error.filename) from error
        try:
            while at < len(view) and (size := self._append(view, at, leader_epoch)):
                at += size
        finally:
            self._grew()
        self._unsynced_bytes += at
        if self._unsynced_bytes >= SYNCED_BYTES:
            self.sync()
        return at

    def _append(self, view: memoryview, at: int, leader_epoch: int) -> int:
        """Appends batches and returns their bytes. 0: the last batch was cut short."""
        log = self._log
        epochs = log.epochs.latest, leader_epoch
        limits = {"bytes_max": len(view), "batches_max": BATCHES_AT_ONCE}
        try:
            replicated = read_replicated(view, at, log.log_end_offset, epochs, **limits)
        except FarAhead as gap:
            log.skip_to(gap.base_offset)
            replicated = read_replicated(view, at, log.log_end_offset, epochs, **limits)
        if replicated.batches:
            record_producers(log.producers, view, replicated.with_producer)
            log.append([view[at : at + replicated.size]], replicated.batches)
        return replicated.size

    def skip_to(self, offset: int) -> None:
        """Follows a gap: the copied log has no records before `offset`. Raises LogWriteError."""
        self._log.skip_to(offset)
        self._grew()

    def truncate_to(self, offset: int) -> None:
        """Follows a truncation of the copied log. Raises LogWriteError."""
        self._log.truncate_to(offset)
        self._grew()

    def sync(self) -> None:
        """Syncs, so that little is left for `finish`. Raises SyncFailed, OSError."""
        targets = self._log.sync_targets()
        if targets is not None:
            with syncing():
                wrote = sync_then_write([targets], self.place.fs, self.place.directory.path)
            self._log.mark_synced(targets if wrote else targets.without_writes())
        self._unsynced_bytes = 0

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    def finish(self, epochs: Sequence[tuple[int, int]], producers: Mapping[int, ProducerEntry], start_offset: int) -> None:
        """Ends the copy. All of it is on the disk when this returns, with the state that the copied log has beside its batches.
        Only `reopen` or `promote` may follow. Raises OSError."""
        log = self._log
        log.take_over(epochs, ProducerState(producers))
        log.next_start_offset = start_offset
        log.advance_start()
        with syncing():
            log.close(clean=True)

    def reopen(self) -> None:
        """Opens the log again, since it is not promoted yet after all. Raises LogDamaged, OSError."""
        self._log = self.place.open(self.path, log_start_offset=self._log.log_start_offset)
        self._grew()

    def promote(self) -> Log:
        """Makes this log the partition, and opens it as such. Raises OSError, LogDamaged: then it is unknown which of two
        directories of that name a start would choose."""
        place, before = self.place, self._log
        path = place.directory.promote_future(place.topic, place.partition, place.topic_id)
        log = place.open(path, log_start_offset=before.log_start_offset, committed_offset=before.log_end_offset)
        if log.log_end_offset != before.log_end_offset:
            raise LogDamaged(f"{path} ends at {log.log_end_offset}, it was copied up to {before.log_end_offset}")
        return log

    def demote(self) -> None:
        """Undoes a `promote` that failed at any step. Raises OSError."""
        place = self.place
        path = place.directory.partition_path(place.topic, place.partition)
        if not place.fs.exists(self.path) and place.fs.exists(path):
            place.fs.rename(path, self.path)

    def _grew(self) -> None:
        self.end_offset, self.size = self._log.log_end_offset, self._log.size
