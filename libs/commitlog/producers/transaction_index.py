"""The `.txnindex` of a segment: the aborted transactions whose marker is in it. It is Kafka's file, and exists only with entries.

An entry is made when the marker is appended, and kept in memory. A sync round writes the file whole, before it leaves a resume
point behind the marker. Entries that a crash loses are found again in the batches behind the resume point.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from typing import NamedTuple

from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.producers.transactions import EndedTransaction

ENTRY = struct.Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset


_FIRST_OFFSET = struct.Struct(">q")
_FIRST_OFFSET_AT = 10
_FAN = 32
_LEVELS = 5
"""Blocks of blocks hold 33 million entries. A segment has no room for so many markers."""


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, packed as in the file. Their last offsets, and last stable offsets, ascend.

    First offsets do not: one transaction may be open while a million others abort. So the least first offset of each 32 entries
    is known, and of each 32 such blocks, and so on. A search passes over entries of transactions that began too late.
    """

    __slots__ = ("_content", "_least")

    def __init__(self) -> None:
        self._content = bytearray()
        self._least = [array("q") for _ in range(_LEVELS)]

    @classmethod
    def parse(cls, content: bytes, path: str, base_offset: int) -> "TransactionIndex":
        """Raises DirectoryDamaged."""
        if len(content) % ENTRY.size:
            raise DirectoryDamaged(f"{path}: {len(content)} bytes are not a whole number of entries of {ENTRY.size}")
        index, before = cls(), base_offset - 1
        for slot, (version, producer_id, first, last, stable) in enumerate(ENTRY.iter_unpack(content)):
            if version != 0:
                raise DirectoryDamaged(f"{path}: entry {slot} has version {version}")
            if not (producer_id >= 0 and 0 <= first <= last and before < last and stable >= 0):
                raise DirectoryDamaged(
                    f"{path}: entry {slot} (offsets {first} to {last}) cannot follow what lies before {before}"
                )
            before = last
            index._note_first_offset(slot, first)
        index._content += content
        return index

    @classmethod
    def of(cls, ended: list[EndedTransaction]) -> "TransactionIndex":
        index = cls()
        for transaction in ended:
            if transaction.aborted:
                index.append(transaction)
        return index

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def __len__(self) -> int:
        return len(self._content) // ENTRY.size

    def entry(self, slot: int) -> AbortedTransaction:
        return AbortedTransaction._make(ENTRY.unpack_from(self._content, slot * ENTRY.size)[1:])

    def append(self, ended: EndedTransaction) -> None:
        fields = ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
        self._note_first_offset(len(self), ended.first_offset)
        self._content += ENTRY.pack(0, *fields)

    def cut(self, end_offset: int) -> bool:
        """Removes the entries of markers at or past `end_offset`. Returns whether there were any."""
        count = self._slot_from(end_offset)
        if count == len(self):
            return False
        del self._content[count * ENTRY.size :]
        tail = array("q", [self._first_offset(slot) for slot in range(count - count % _FAN, count)])
        size = 1
        for least in self._least:
            size *= _FAN
            del least[count // size :]
            if tail:
                least.append(min(tail))
            tail = least[count // (size * _FAN) * _FAN :]
        return True

    def collect(
        self, start_offset: int, upper_bound: int, transactions: list[AbortedTransaction], count_max: int = sys.maxsize
    ) -> bool:
        """Adds the transactions that may have a batch in [start_offset, upper_bound). True: no later marker ends such a
        transaction, or there are more than `count_max`."""
        begin = self._slot_from(start_offset)
        last = bisect_left(range(len(self)), upper_bound, begin, key=lambda slot: self.entry(slot).last_stable_offset)
        stop = min(last + 1, len(self))
        slot = self._begun_before(upper_bound, begin, stop)
        while slot < stop:
            transactions.append(self.entry(slot))
            if len(transactions) > count_max:
                return True
            slot = self._begun_before(upper_bound, slot + 1, stop)
        return last < len(self)

    def _begun_before(self, offset: int, slot: int, stop: int) -> int:
        """The next entry in [slot, stop) of a transaction that began before `offset`; `stop` or more if there is none."""
        while slot < stop:
            passed, size = 0, 1
            for least in self._least:
                block, at = divmod(slot, size * _FAN)
                if at or least[block] < offset:
                    break
                size *= _FAN
                passed = size
            if passed:
                slot += passed
            elif self._first_offset(slot) < offset:
                return slot
            else:
                slot += 1
        return slot

    def _first_offset(self, slot: int) -> int:
        first: int = _FIRST_OFFSET.unpack_from(self._content, slot * ENTRY.size + _FIRST_OFFSET_AT)[0]
        return first

    def _note_first_offset(self, slot: int, first_offset: int) -> None:
        """Notes the first offset of the last entry in the blocks that it belongs to."""
        for least in self._least:
            slot //= _FAN
            if slot == len(least):
                least.append(first_offset)
            elif first_offset < least[slot]:
                least[slot] = first_offset

    def _slot_from(self, offset: int) -> int:
        """The first entry whose marker is at or past `offset`."""
        return bisect_left(range(len(self)), offset, key=lambda slot: self.entry(slot).last_offset)
