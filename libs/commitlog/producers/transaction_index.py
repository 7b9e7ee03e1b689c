"""The `.txnindex` of a segment: the aborted transactions whose marker is in it. It is Kafka's file, and exists only with entries.

An entry is made when the marker is appended, and kept in memory. A sync round writes the file whole, before it leaves a resume
point behind the marker. Entries that a crash loses are found again in the batches behind the resume point.
"""

import struct
import sys
from bisect import bisect_left
from typing import NamedTuple

from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.producers.transactions import EndedTransaction

ENTRY = struct.Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment, packed as in the file. Their last offsets ascend."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes = b"") -> None:
        self._content = bytearray(content)

    @classmethod
    def parse(cls, content: bytes, path: str, base_offset: int) -> "TransactionIndex":
        """Raises DirectoryDamaged."""
        if len(content) % ENTRY.size:
            raise DirectoryDamaged(f"{path}: {len(content)} bytes are not a whole number of entries of {ENTRY.size}")
        index, before = cls(content), base_offset - 1
        for slot, (version, producer_id, first, last, stable) in enumerate(ENTRY.iter_unpack(content)):
            if version != 0:
                raise DirectoryDamaged(f"{path}: entry {slot} has version {version}")
            if not (producer_id >= 0 and 0 <= first <= last and before < last and stable >= 0):
                raise DirectoryDamaged(
                    f"{path}: entry {slot} (offsets {first} to {last}) cannot follow what lies before {before}"
                )
            before = last
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
        self._content += ENTRY.pack(0, *fields)

    def cut(self, end_offset: int) -> bool:
        """Removes the entries of markers at or past `end_offset`. Returns whether there were any."""
        keep = self._slot_from(end_offset) * ENTRY.size
        if keep == len(self._content):
            return False
        del self._content[keep:]
        return True

    def collect(
        self, start_offset: int, upper_bound: int, transactions: list[AbortedTransaction], count_max: int = sys.maxsize
    ) -> bool:
        """Adds the transactions that may have a batch in [start_offset, upper_bound). True: no later marker ends such a
        transaction, or there are more than `count_max`."""
        for slot in range(self._slot_from(start_offset), len(self)):
            entry = self.entry(slot)
            if entry.first_offset < upper_bound:
                transactions.append(entry)
            if entry.last_stable_offset >= upper_bound or len(transactions) > count_max:
                return True
        return False

    def _slot_from(self, offset: int) -> int:
        """The first entry whose marker is at or past `offset`."""
        return bisect_left(range(len(self)), offset, key=lambda slot: self.entry(slot).last_offset)
