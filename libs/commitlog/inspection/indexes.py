"""The indexes of a segment, held against the batches that they must point at."""

import struct
from typing import NamedTuple

from libs.commitlog.inspection.batches import InspectedBatch
from libs.commitlog.inspection.findings import Findings


class IndexContent(NamedTuple):
    path: str
    entries: list[tuple[int, int]]
    room: int  # preallocated bytes of zeros behind the entries
    entry_size: int


def parse_index(path: str, content: bytes, entry: struct.Struct, *, is_last: bool, findings: Findings) -> IndexContent:
    """Reads an index. In the last segment's index, trailing zeros are room for entries to come."""
    ragged = len(content) % entry.size
    if ragged:
        findings.problem(path, len(content) - ragged, f"{len(content)} bytes are not a whole number of entries of {entry.size}")
        content = content[: len(content) - ragged]
    room = 0
    if is_last or len(content) > entry.size:
        used = -(-len(content.rstrip(b"\0")) // entry.size) * entry.size  # a preallocated index has a million entries of room
        room = len(content) - used
        content = content[:used]
        if room and not is_last:
            findings.note(path, used, f"{room} bytes of zeros behind the entries, which sealing should have cut")
    return IndexContent(path, [(first, second) for first, second in entry.iter_unpack(content)], room, entry.size)


class IndexCheck:
    """A check of a segment's indexes. It is given the batches in order, and reports entries that contradict them."""

    def __init__(self, base_offset: int, offsets: IndexContent | None, times: IndexContent | None, findings: Findings) -> None:
        self._base_offset, self._offsets, self._times, self._findings = base_offset, offsets, times, findings
        self._pointers = [] if offsets is None else _ascending(offsets, ("offset", "position"), findings)
        self._moments = [] if times is None else _ascending(times, ("timestamp", "offset"), findings)
        self._next_pointer = self._next_moment = 0
        self._greatest = -1
        self._is_damaged = False

    def observe(self, batch: InspectedBatch) -> None:
        relative = batch.header.last_offset - self._base_offset
        self._check_pointers(batch, relative)
        is_new_greatest = batch.header.max_timestamp > self._greatest
        self._greatest = max(self._greatest, batch.header.max_timestamp)
        self._check_moments(relative, is_new_greatest)

    def skipped(self, end: int) -> None:
        """Skips entries for records that are gone, since they cannot be checked."""
        self._is_damaged = True
        while self._next_pointer < len(self._pointers) and self._pointers[self._next_pointer][1][1] < end:
            self._next_pointer += 1

    def ended(self, size: int, *, is_sealed: bool) -> None:
        for slot, (_, position) in self._pointers[self._next_pointer :]:
            self._wrong(self._offsets, slot, f"points at position {position}, where the log has no batch (it ends at {size})")
        if self._is_damaged:
            return
        for slot, (_, relative) in self._moments[self._next_moment :]:
            self._wrong(self._times, slot, f"names offset {self._base_offset + relative}, which is past the segment's end")
        last = self._times.entries[-1][0] if self._times is not None and self._times.entries else -1
        if is_sealed and self._times is not None and self._greatest > last and not self._moments[self._next_moment :]:
            message = (
                f"the greatest timestamp is {self._greatest}, the last entry says {last}: retention and lookups by time go wrong"
            )
            self._findings.problem(self._times.path, len(self._times.entries) * self._times.entry_size, message)

    def _check_pointers(self, batch: InspectedBatch, relative: int) -> None:
        while self._next_pointer < len(self._pointers):
            slot, (named, position) = self._pointers[self._next_pointer]
            if position > batch.position:
                return
            self._next_pointer += 1
            if position < batch.position:
                self._wrong(self._offsets, slot, f"points at position {position}, where no batch begins")
            elif named != relative:
                offset, last = self._base_offset + named, batch.header.last_offset
                self._wrong(
                    self._offsets, slot, f"says that the batch at position {position} ends with offset {offset}, it is {last}"
                )

    def _check_moments(self, relative: int, is_new_greatest: bool) -> None:
        while self._next_moment < len(self._moments):
            slot, (timestamp, named) = self._moments[self._next_moment]
            if named > relative:
                return
            self._next_moment += 1
            offset = self._base_offset + named
            if named < relative:
                if not self._is_damaged:
                    self._wrong(self._times, slot, f"names offset {offset}, with which no batch ends")
            elif timestamp != self._greatest and not self._is_damaged:
                message = f"says {timestamp} is the greatest timestamp up to offset {offset}, it is {self._greatest}"
                self._wrong(self._times, slot, message)
            elif not is_new_greatest and not self._is_damaged:
                self._wrong(self._times, slot, f"timestamp {timestamp} was reached before offset {offset}")

    def _wrong(self, index: IndexContent | None, slot: int, message: str) -> None:
        assert index is not None
        self._findings.problem(index.path, slot * index.entry_size, f"entry {slot} {message}")


def _ascending(index: IndexContent, names: tuple[str, str], findings: Findings) -> list[tuple[int, tuple[int, int]]]:
    """The ascending entries, each with its slot. Entries that are out of order are reported and left out."""
    ascending: list[tuple[int, tuple[int, int]]] = []
    for slot, entry in enumerate(index.entries):
        before = ascending[-1][1] if ascending else (-1, -1)
        if entry[0] > before[0] and entry[1] > before[1]:
            ascending.append((slot, entry))
            continue
        values = f"{names[0]} {entry[0]}, {names[1]} {entry[1]}"
        message = f"entry {slot} ({values}) is out of order: both should be more than in the one before"
        findings.problem(index.path, slot * index.entry_size, message)
    return ascending
