"""The copy of a log that is to take its place from another log directory: Kafka's future log.

`TOPIC-PARTITION.<topic id>-future` is filled from the log while that goes on. When both end at the same offset, and nobody
appends: it takes over what batches do not tell, and is closed, synced → its directory gets the partition's name → the name of
where it came from goes. From the second step on there are two of one name, of which `MOVES` tells the newer; a crash at any step
leaves exactly one that counts, and all of it.

Used by one thread at a time, whichever may block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.clock import Clock
from libs.commitlog.config import LogConfig
from libs.commitlog.directory import LogDirectory
from libs.commitlog.errors import LogDamaged
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.log import Log
from libs.commitlog.producers import ProducerEntry, ProducerState
from libs.commitlog.reading import Slice
from libs.commitlog.recovering import HowToOpen
from libs.commitlog.replicated import FarAhead, read_replicated, record_producers
from libs.commitlog.segment import FileRegistry
from libs.commitlog.sync import Lineage, sync_then_write, syncing

BATCHES_AT_ONCE = 2000
SYNCED_BYTES = 16 << 20
"""After so many bytes they are synced: what is dirty holds its files open."""


class SourceUnreadable(OSError):
    """The log that is copied cannot be read there, or not any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of which partition, and where it is to go."""

    directory: LogDirectory
    topic: str
    partition: int
    topic_id: bytes
    config: LogConfig
    fs: FileSystem
    registry: FileRegistry
    clock: Clock

    def open(self, path: str, *, log_start_offset: int, committed_offset: int = 0) -> Log:
        """One that was closed cleanly, or is new. Raises LogDamaged, OSError."""
        how = HowToOpen(
            *(path, self.topic, self.partition, self.config, self.fs),
            clean=True,
            log_start_offset=log_start_offset,
            committed_offset=committed_offset,
        )
        return how.open(self.registry, self.clock)


class FutureLog:
    """`begin` one. `lineage`: of the log that it copies, when that was last looked at."""

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
        """Empty, at `base_offset`, which may lie before its start: where the batch begins that holds that. Raises OSError,
        LogDamaged."""
        path = place.directory.create_future(place.topic, place.partition, place.topic_id, moves)
        log = place.open(path, log_start_offset=base_offset)
        log.next_start_offset = start_offset
        log.advance_start()
        return cls(place, path, log, lineage)

    def copy(self, piece: Slice, leader_epoch: int) -> int:
        """The whole batches of a piece that was read where this ends; how many bytes. They are checked as a follower checks
        them. Raises SourceUnreadable, NotReplicable, LogWriteError, SyncFailed, OSError."""
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
        """So many bytes; 0: the last batch was cut short."""
        log = self._log
        epochs = log.epochs.latest, leader_epoch
        limits = {"bytes_max": len(view), "batches_max": BATCHES_AT_ONCE}
        try:
            found = read_replicated(view, at, log.log_end_offset, epochs, **limits)
        except FarAhead as gap:
            log.skip_to(gap.base_offset)
            found = read_replicated(view, at, log.log_end_offset, epochs, **limits)
        if found.batches:
            record_producers(log.producers, view, found.with_producer)
            log.append([view[at : at + found.size]], found.batches)
        return found.size

    def skip_to(self, offset: int) -> None:
        """The log that is copied has nothing before, and ends there. Raises LogWriteError."""
        self._log.skip_to(offset)
        self._grew()

    def cut_to(self, offset: int) -> None:
        """The log that is copied was cut there. Raises LogWriteError."""
        self._log.truncate_to(offset)
        self._grew()

    def sync(self) -> None:
        """So that little is left for `finish`. Raises SyncFailed, OSError."""
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
        """All of it is on the disk when this returns, and what the log that it was copied from knows besides. Only `reopen` or
        `promote` may follow. Raises OSError."""
        log = self._log
        log.take_over(epochs, ProducerState(dict(producers)))
        log.next_start_offset = start_offset
        log.advance_start()
        with syncing():
            log.close(clean=True)

    def reopen(self) -> None:
        """It is not to be promoted yet after all. Raises LogDamaged, OSError."""
        self._log = self.place.open(self.path, log_start_offset=self._log.log_start_offset)
        self._grew()

    def promote(self) -> Log:
        """It is the partition from now on, and opened as such. Raises OSError, LogDamaged: then nobody knows which of two of one
        name a start would take for the newer one."""
        place, before = self.place, self._log
        path = place.directory.promote_future(place.topic, place.partition, place.topic_id)
        log = place.open(path, log_start_offset=before.log_start_offset, committed_offset=before.log_end_offset)
        if log.log_end_offset != before.log_end_offset:
            raise LogDamaged(f"{path} ends at {log.log_end_offset}, it was copied up to {before.log_end_offset}")
        return log

    def demote(self) -> None:
        """After a `promote` that failed, wherever it did. Raises OSError."""
        place = self.place
        path = place.directory.partition_path(place.topic, place.partition)
        if not place.fs.exists(self.path) and place.fs.exists(path):
            place.fs.rename(path, self.path)

    def _grew(self) -> None:
        self.end_offset, self.size = self._log.log_end_offset, self._log.size
