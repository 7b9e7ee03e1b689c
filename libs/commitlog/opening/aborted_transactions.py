"""The aborted transactions of a log: an index for each segment that has any, read when it is first needed.

Damaged or missing indexes are rebuilt from the batches; nothing else is lost with them. Resume points hold their checksums, since
a flipped bit would show aborted records to readers. An index without a checksum, such as Kafka wrote, is compared with its
markers.
"""

import logging
import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from crc32c import crc32c

from libs.commitlog.files.durable_files import FileWrite, read_file
from libs.commitlog.files.file_names import TRANSACTION_INDEX, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.files.page_cache import off_loop
from libs.commitlog.model.errors import DirectoryDamaged, LogDamaged
from libs.commitlog.opening import recovery
from libs.commitlog.opening.producer_rewind import producers_at
from libs.commitlog.producers.transaction_index import ENTRY, AbortedTransaction, TransactionIndex
from libs.commitlog.producers.transactions import EndedTransaction
from libs.commitlog.segments.segment import Segment
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import read_marker

log = logging.getLogger("log")


class AbortedTransactions:
    """The aborted transactions of a log. The log's thread uses it. `bases`: the segments that have an index on disk."""

    def __init__(self, fs: FileSystem, directory: str, bases: Iterable[int] = ()) -> None:
        self._fs, self._directory = fs, directory
        self._counts = dict.fromkeys(sorted(bases), 0)  # by segment, in their order
        self._indexes: dict[int, TransactionIndex] = {}
        self._checksums: dict[int, int] = {}  # of the files, when they were found sound
        self._unsaved: dict[int, None] = {}

    # --- what is known

    @property
    def has_any(self) -> bool:
        return bool(self._counts)

    @property
    def counts(self) -> dict[int, int]:
        """The number of entries, by segment."""
        return dict(self._counts)

    @property
    def checksums(self) -> dict[int, int]:
        """The checksums of the entries, by segment."""
        saved = {base: self._checksums[base] for base in self._counts if base not in self._indexes}
        return saved | {base: crc32c(self._indexes[base].content) for base in self._counts if base in self._indexes}

    def between(
        self, segments: Sequence[Segment], start_offset: int, upper_bound: int, count_max: int = sys.maxsize
    ) -> list[AbortedTransaction]:
        """The transactions that may have a batch in [start_offset, upper_bound), in the order of their markers. Of more than
        `count_max`, one more is told. Raises OSError, LogDamaged."""
        transactions: list[AbortedTransaction] = []
        bases = list(self._counts)
        for base in bases[max(0, bisect_right(bases, start_offset) - 1) :]:
            if self._index(segments, base).collect(start_offset, upper_bound, transactions, count_max):
                break
        return transactions

    # --- what the log does

    def ended(self, segments: Sequence[Segment], transactions: Iterable[EndedTransaction]) -> None:
        """Notes transactions whose markers are in the log now, in order."""
        for transaction in transactions:
            if transaction.aborted:
                base = segments[_slot_of(segments, transaction.last_offset)].base_offset
                index = self._index(segments, base)
                index.append(transaction)
                self._counts[base] = len(index)
                self._unsaved[base] = None

    def cut(self, segments: Sequence[Segment], end_offset: int) -> None:
        """Follows a truncation: the log ends at `end_offset` now, and segments from there on are gone with their files. Raises
        OSError.

        The next round corrects the file of the segment that was cut. Until then the resume point before the cut says which of its
        entries count.
        """
        self.forget([base for base in self._counts if base >= end_offset])
        if self._counts:
            last = next(reversed(self._counts))
            if self._index(segments, last).cut(end_offset):
                self._settle(last)

    def forget(self, bases: Iterable[int]) -> None:
        """Forgets segments that left the log."""
        for base in bases:
            for table in (self._counts, self._indexes, self._checksums, self._unsaved):
                table.pop(base, None)

    def replaced(self, bases: Iterable[int], base_offset: int, content: bytes | None) -> None:
        """Follows a swap: one segment replaced others, and its index replaced theirs. None: it has no index."""
        self.forget(bases)
        if content is not None:
            self._counts[base_offset] = len(content) // ENTRY.size
            self._checksums[base_offset] = crc32c(content)
            self._sort()

    # --- saving

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved)

    def unsaved(self, active_base: int, *, active_too: bool) -> list[FileWrite]:
        """The files that the next round writes. The active segment's grows with each abort, and is written only with a resume
        point."""
        due = [base for base in self._unsaved if base != active_base or active_too]
        return [FileWrite(self._path(base), self._indexes[base].content) for base in due]

    def saved(self, writes: Iterable[FileWrite]) -> None:
        if self._unsaved:
            written = {write.path: write.content for write in writes}
            for base in list(self._unsaved):
                if written.get(self._path(base)) == self._indexes[base].content:
                    del self._unsaved[base]

    # --- opening

    def opened(
        self,
        segments: Sequence[Segment],
        scanned_from: int,
        ended: Iterable[EndedTransaction],
        expected: Mapping[int, int],
        checksums: Mapping[int, int],
    ) -> None:
        """Compares indexes with batches.

        Markers from `scanned_from` on were seen, and ended the transactions in `ended`. Before it the files count. They must have
        as many entries by segment as `expected` says, and those `checksums`. Raises OSError, LogDamaged.
        """
        self._checksums.update(checksums)
        at = _slot_of(segments, scanned_from)
        slots = {segment.base_offset: slot for slot, segment in enumerate(segments)}
        for base in sorted({*self._counts, *expected}):
            slot = slots.get(base)
            if slot is None:
                self.forget([base])  # the segment left, or was torn and removed with its files
            elif slot <= at:
                self._open(segments, slot, scanned_from, expected.get(base, 0))
            else:
                self._indexes[base] = TransactionIndex()
        self.ended(segments, (transaction for transaction in ended if transaction.last_offset >= scanned_from))
        for base in list(self._indexes):
            self._settle(base)
        self._sort()

    def _open(self, segments: Sequence[Segment], slot: int, scanned_from: int, expected: int) -> None:
        """Checks the index of a segment that lies wholly before the scanned part. It only reads the file."""
        segment = segments[slot]
        is_sealed = slot + 1 < len(segments) and segment.next_offset <= scanned_from
        try:
            index = self._read(segment, scanned_from, is_sealed=is_sealed)
            if len(index) < expected:
                raise DirectoryDamaged(f"{self._path(segment.base_offset)}: {len(index)} entries, {expected} were written")
        except DirectoryDamaged as damage:
            index = self._rebuilt(segments, slot, scanned_from, damage)
            self._unsaved[segment.base_offset] = None
        if not is_sealed or segment.base_offset in self._unsaved:
            self._indexes[segment.base_offset] = index
        self._checksums[segment.base_offset] = crc32c(index.content)
        self._counts[segment.base_offset] = len(index)

    # --- one segment's

    def _index(self, segments: Sequence[Segment], base: int) -> TransactionIndex:
        index = self._indexes.get(base)
        if index is None:
            index = TransactionIndex()
            if base in self._counts:
                slot = _slot_of(segments, base)
                try:
                    index = self._read(segments[slot], segments[slot].next_offset, is_sealed=True)
                except DirectoryDamaged as damage:
                    work = partial(self._rebuilt, list(segments), slot, segments[slot].next_offset, damage)
                    index = off_loop(self._directory, ("aborted transactions", segments[slot].file), work)
                    self._unsaved[base] = None
            self._indexes[base] = index
        return index

    def _read(self, segment: Segment, end_offset: int, *, is_sealed: bool) -> TransactionIndex:
        path = self._path(segment.base_offset)
        work = partial(_parsed, self._fs, path, segment.base_offset)
        index = off_loop(path, ("transaction index", path, segment.file), work)
        if is_sealed and index.cut(segment.next_offset):
            raise DirectoryDamaged(f"{path}: names markers past the end of its segment, {segment.next_offset}")
        index.cut(end_offset)
        checksum = self._checksums.get(segment.base_offset)
        if checksum is None:
            _check_markers(segment, index, path)
        elif checksum != crc32c(index.content):
            raise DirectoryDamaged(f"{path}: its entries are not those that were written")
        return index

    def _rebuilt(self, segments: Sequence[Segment], slot: int, end_offset: int, damage: DirectoryDamaged) -> TransactionIndex:
        """An index made again, in any thread: it changes nothing here, since the segment may leave the log meanwhile, and the
        lookup that asked may never come back."""
        segment = segments[slot]
        # Only open transactions matter here.
        producers = producers_at(self._fs, self._directory, list(segments[:slot]), segment.base_offset, 0)
        replay = recovery.ProducerReplay(producers, 0)
        recovery.replay_from(segment, 0, end_offset, replay)
        replay.end()
        index = TransactionIndex.of(producers.take_ended())
        log.warning("%s; made again from the batches, with %d aborted transactions", damage, len(index))
        return index

    def _settle(self, base: int) -> None:
        """Makes the index say what the batches say; the file may say something else."""
        path, index = self._path(base), self._indexes[base]
        if len(index):
            self._counts[base] = len(index)
            if read_file(self._fs, path) != index.content:
                self._unsaved[base] = None
        else:
            self.forget([base])
            if self._fs.exists(path):
                self._fs.unlink(path)

    def _sort(self) -> None:
        self._counts = dict(sorted(self._counts.items()))

    def _path(self, base: int) -> str:
        return path_of(self._directory, base, TRANSACTION_INDEX)


def _parsed(fs: FileSystem, path: str, base_offset: int) -> TransactionIndex:
    """The index in a file, in any thread: clients may have made a million entries. Raises DirectoryDamaged, OSError."""
    content = read_file(fs, path)
    if content is None:
        raise DirectoryDamaged(f"{path}: is gone")
    return TransactionIndex.parse(content, path, base_offset)


def _check_markers(segment: Segment, index: TransactionIndex, path: str) -> None:
    """Raises DirectoryDamaged if a transaction does not end where an entry says. Unreadable batches prove nothing."""
    for slot in range(len(index)):
        entry = index.entry(slot)
        try:
            place = segment.find(entry.last_offset)
            header = BatchHeader.at(segment.header_at(place.position)) if place is not None else None
            marker = read_marker(segment.batch_at(place)) if place is not None and header and header.is_control else None
        except (LogDamaged, OSError):
            return
        is_marker = header is not None and marker is not None and marker.aborts and header.base_offset == entry.last_offset
        begins_before = entry.first_offset < entry.last_offset and entry.last_stable_offset <= entry.last_offset + 1
        if not (is_marker and begins_before and header is not None and header.producer_id == entry.producer_id):
            raise DirectoryDamaged(f"{path}: entry {slot} says what no marker says at offset {entry.last_offset}")


def _slot_of(segments: Sequence[Segment], offset: int) -> int:
    """The slot of the segment that would hold the offset."""
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)
