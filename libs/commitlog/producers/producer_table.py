"""The producers of a partition, packed, in small buckets by producer id.

A turn of an event loop must not cost what a million producers cost. So no dict grows without a bound (one that grows past 700,000
keys moves them all, in a tenth of a second): buckets split one by one, by linear hashing. A view for a save shares the buckets,
and a bucket that a view holds is copied before it changes. Each bucket is in the order of last appends, so expiry and eviction
take from its front.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import chain
from typing import Final

from libs.commitlog.producers.producer_entries import ProducerEntry, first_offset_of, is_open, pack_entry, unpack_entry

BUCKET_SIZE: Final = 128
"""The mean number of producers at which a bucket splits."""
BUCKETS_MAX: Final = 8192
BUCKET_MAX: Final = 1024
"""The most producers in a bucket, unless their transactions are open: a client may make ids up that fall into one. A million
producers fill an eighth of it."""
SPREAD: Final = 8191
"""A prime: buckets are chosen by the rest of an id, so that ids in steps of a power of two spread evenly."""
MARKS: Final = 64
"""The most marks of time in a bucket, about. A silent producer may be known by 1/64 longer than the expiration."""
EVICTION_WORK_MAX: Final = 10
"""The producers with an open transaction that an eviction passes over for each one that it may evict."""

Bucket = dict[int, bytes]
"""Packed entries by producer id, those of the latest appends last. Negative keys are marks of time, and have no bytes: the
producers before a mark have not appended since that time."""


class PackedProducers(Mapping[int, ProducerEntry]):
    """A read-only view of producers, as they were when it was taken. Any thread may read it."""

    __slots__ = ("_buckets", "_mask", "count")

    def __init__(self, buckets: list[Bucket], count: int) -> None:
        self._buckets, self.count = buckets, count
        self._mask = (1 << (len(buckets) - 1).bit_length()) - 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return (key for bucket in self._buckets for key in bucket if key >= 0)

    def __getitem__(self, producer_id: int) -> ProducerEntry:
        packed = self.packed(producer_id) if producer_id >= 0 else None
        if packed is None:
            raise KeyError(producer_id)
        return unpack_entry(packed)

    def __contains__(self, producer_id: object) -> bool:
        return isinstance(producer_id, int) and producer_id >= 0 and self.packed(producer_id) is not None

    def __repr__(self) -> str:
        return repr(dict(self))

    def packed(self, producer_id: int) -> bytes | None:
        """The packed entry of an id, which is not negative."""
        slot, buckets = producer_id % SPREAD & self._mask, self._buckets
        if slot >= len(buckets):
            slot &= self._mask >> 1
        return buckets[slot].get(producer_id)

    def slices(self) -> Iterator[list[bytes]]:
        """The packed entries of one bucket after the other."""
        for bucket in self._buckets:
            if values := [packed for packed in bucket.values() if packed]:
                yield values

    def open_transactions(self) -> Iterator[tuple[int, int]]:
        """The open transactions: first offset, and producer id."""
        items = chain.from_iterable(bucket.items() for bucket in self._buckets)
        return ((first_offset_of(packed), producer_id) for producer_id, packed in items if packed and is_open(packed))

    def with_changes(self, changes: Mapping[int, bytes | None]) -> "PackedProducers":
        """A view in which some producers have other entries. None: not this one."""
        buckets, count, copied = list(self._buckets), self.count, set[int]()
        for producer_id, packed in changes.items():
            slot = self._slot(producer_id)
            if slot not in copied:
                copied.add(slot)
                buckets[slot] = buckets[slot].copy()
            before = buckets[slot].pop(producer_id, None)
            if packed is not None:
                buckets[slot][producer_id] = packed
            count += (packed is not None) - (before is not None)
        return PackedProducers(buckets, count)

    def _slot(self, producer_id: int) -> int:
        slot = producer_id % SPREAD & self._mask
        return slot if slot < len(self._buckets) else slot & self._mask >> 1


class ProducerTable(PackedProducers, MutableMapping[int, ProducerEntry]):
    """The producers that a log knows now. The log's thread changes it."""

    __slots__ = ("_cursor", "_evicts_from", "_marks", "_owned", "_ticks", "_uses", "crowded")

    def __init__(self, entries: Mapping[int, ProducerEntry] | None = None) -> None:
        super().__init__([{}], 0)
        self._owned = bytearray(b"\1")  # by bucket: 0 while a view holds it, too
        self._marks: dict[int, tuple[int, ...]] = {}  # those of each bucket that has any, in order
        self._ticks: dict[int, int] = {}  # the time of each mark, in ms
        self._uses: dict[int, int] = {}  # the buckets that have it
        self.crowded: set[int] = set()
        """The buckets that grew beyond BUCKET_MAX. `evict` makes them smaller."""
        self._evicts_from = 0
        self._cursor = 0  # the bucket with which the next call of `expire` continues
        if isinstance(entries, PackedProducers):
            self._take([*map(_without_marks, entries._buckets)])
        elif entries is not None:
            self.update(entries)

    @classmethod
    def of_packed(cls, entries: Sequence[tuple[int, bytes]]) -> "ProducerTable":
        """A table of packed entries. Their ids differ, and none is negative."""
        size = min(max(1, len(entries) // BUCKET_SIZE), BUCKETS_MAX)
        table = cls()
        table._take([{} for _ in range(size)])
        mask, half = table._mask, table._mask >> 1
        buckets = table._buckets
        for producer_id, packed in entries:
            slot = producer_id % SPREAD & mask
            buckets[slot if slot < size else slot & half][producer_id] = packed
        table.count = sum(map(len, buckets))
        return table

    def _take(self, buckets: list[Bucket]) -> None:
        super().__init__(buckets, sum(map(len, buckets)))
        self._owned = bytearray(b"\1" * len(buckets))

    # --- changes

    def put(self, producer_id: int, packed: bytes) -> None:
        """Sets the entry of a producer that has just appended."""
        slot, buckets = producer_id % SPREAD & self._mask, self._buckets
        if slot >= len(buckets):
            slot &= self._mask >> 1
        bucket = buckets[slot] if self._owned[slot] else self._own(slot)
        if bucket.pop(producer_id, None) is None:
            self.count += 1
            if len(bucket) >= BUCKET_MAX:
                self.crowded.add(slot)
            if self.count > BUCKET_SIZE * len(buckets) and len(buckets) < BUCKETS_MAX:
                self._split()
                bucket = buckets[self._slot(producer_id)]
        bucket[producer_id] = packed

    def remove(self, producer_id: int) -> None:
        slot = self._slot(producer_id)
        bucket = self._buckets[slot] if self._owned[slot] else self._own(slot)
        del bucket[producer_id]
        self.count -= 1

    def __setitem__(self, producer_id: int, entry: ProducerEntry) -> None:
        self.put(producer_id, pack_entry(producer_id, entry))

    def __delitem__(self, producer_id: int) -> None:
        if producer_id not in self:
            raise KeyError(producer_id)
        self.remove(producer_id)

    def view(self) -> PackedProducers:
        """The producers as they are now, at the cost of a list of buckets."""
        self._owned = bytearray(len(self._buckets))
        return PackedProducers(list(self._buckets), self.count)

    def discard(self) -> None:
        """Frees the producers of a log that is gone, bucket by bucket: other threads run between two."""
        buckets = self._buckets
        self._take([{}])
        self._marks, self._ticks, self._uses, self._evicts_from, self._cursor = {}, {}, {}, 0, 0
        self.crowded.clear()
        while buckets:
            buckets.pop()

    # --- forgetting

    @property
    def marks(self) -> int:
        """The number of marks of time in all buckets."""
        return sum(self._uses.values())

    @property
    def is_expiring(self) -> bool:
        """Whether `expire` has buckets left to look at."""
        return self._cursor > 0

    def expire(self, now_ms: int, expiration_ms: int, work_max: int) -> int:
        """Forgets producers without an open transaction that were silent for so long, and returns their number. It looks at about
        `work_max` producers at most, and the next call goes on.

        Silence begins with the call that first finds an append. So time passes while the process runs, whatever clocks of clients
        say.
        """
        ticks = self._ticks
        if ticks and now_ms < max(ticks.values()):  # the clock went back: nobody has been silent since the future
            ticks.update({tick: min(time_ms, now_ms) for tick, time_ms in ticks.items()})
        this_tick = min(ticks, default=0) - 1
        ticks[this_tick] = now_ms
        forgotten = work = 0
        for slot in range(self._cursor, len(self._buckets)):
            bucket, marks = self._buckets[slot], self._marks.get(slot, ())
            work += 1
            while marks and ticks[marks[0]] <= now_ms - expiration_ms:
                work += len(bucket)
                forgotten += self._forget_before(slot, marks[0])
                bucket, marks = self._buckets[slot], self._marks.get(slot, ())
            if bucket and next(reversed(bucket)) >= 0:
                work += len(bucket)
                self._mark(slot, marks, this_tick, expiration_ms // MARKS)
            if work >= work_max and slot + 1 < len(self._buckets):
                self._cursor = slot + 1
                break
        else:
            self._cursor = 0
        if this_tick not in self._uses:
            del ticks[this_tick]
        return forgotten

    def evict(self, count_max: int, at_most: int) -> int:
        """Forgets producers without an open transaction while there are more than `count_max`, at most so many of them. Returns
        their number.

        Each is the longest silent of its bucket. Buckets have turns, except those with less than half of the mean, which splits
        do not leave: ids that a client makes up for other buckets push out nobody there.

        No order spans buckets, and they never merge. So a bound that is lowered far keeps the latest of each bucket, and below
        the number of buckets those of the buckets whose turn would come next.
        """
        evicted = 0
        while self.crowded and evicted < at_most:
            slot = self.crowded.pop()
            while len(self._buckets[slot]) > BUCKET_MAX and self._evict_oldest(slot):
                evicted += 1
                if evicted >= at_most:
                    self.crowded.add(slot)
                    break
        work = 0
        while self.count > count_max and evicted < at_most and work < EVICTION_WORK_MAX * at_most:
            self._evicts_from = (self._evicts_from + 1) % len(self._buckets)
            if len(self._buckets[self._evicts_from]) < self.count // len(self._buckets) // 2:
                work += 1
            elif self._evict_oldest(self._evicts_from):
                evicted += 1
            else:
                work += 1 + len(self._buckets[self._evicts_from])
        return evicted

    def _evict_oldest(self, slot: int) -> bool:
        for producer_id, packed in self._buckets[slot].items():
            if packed and not is_open(packed):
                self.remove(producer_id)
                return True
        return False

    def _forget_before(self, slot: int, mark: int) -> int:
        """Forgets the closed producers before a bucket's first mark, and the mark."""
        bucket = self._buckets[slot] if self._owned[slot] else self._own(slot)
        doomed = []
        for key, packed in bucket.items():
            if key == mark:
                break
            if not is_open(packed):
                doomed.append(key)
        for key in (*doomed, mark):
            del bucket[key]
        self.count -= len(doomed)
        self._set_marks(slot, self._marks[slot][1:])
        return len(doomed)

    def _mark(self, slot: int, marks: tuple[int, ...], tick: int, distance_ms: int) -> None:
        """Puts a mark at the end of a bucket, in place of the last one if that is close to the one before."""
        bucket = self._buckets[slot] if self._owned[slot] else self._own(slot)
        ticks = self._ticks
        if len(marks) > 1 and ticks[marks[-1]] - ticks[marks[-2]] < distance_ms:
            del bucket[marks[-1]]
            marks = marks[:-1]
        bucket[tick] = b""
        self._set_marks(slot, (*marks, tick))

    def _set_marks(self, slot: int, marks: tuple[int, ...]) -> None:
        uses, before = self._uses, self._marks.get(slot, ())
        for tick in marks:
            uses[tick] = uses.get(tick, 0) + 1
        for tick in before:
            uses[tick] -= 1
            if not uses[tick]:
                del uses[tick], self._ticks[tick]
        if marks:
            self._marks[slot] = marks
        else:
            self._marks.pop(slot, None)

    # --- buckets

    def _own(self, slot: int) -> Bucket:
        bucket = self._buckets[slot] = self._buckets[slot].copy()
        self._owned[slot] = 1
        return bucket

    def _split(self) -> None:
        """Splits the next bucket in turn. Both halves keep its order and marks."""
        buckets, new = self._buckets, len(self._buckets)
        old = new - (1 << (new.bit_length() - 1))
        self._mask = (1 << new.bit_length()) - 1
        halves: tuple[Bucket, Bucket] = ({}, {})
        for key, packed in buckets[old].items():
            for half, bucket in zip((old, new), halves, strict=True):
                if (key < 0 and bucket and next(reversed(bucket)) >= 0) or (key >= 0 and key % SPREAD & self._mask == half):
                    bucket[key] = packed
        buckets[old] = halves[0]
        buckets.append(halves[1])
        self._owned[old] = 1
        self._owned.append(1)
        for slot, half_bucket in zip((new, old), reversed(halves), strict=True):
            self._set_marks(slot, tuple([key for key in half_bucket if key < 0]))


def packed_of(entries: Mapping[int, ProducerEntry]) -> PackedProducers:
    """Producers as a view, wherever they come from."""
    return entries if isinstance(entries, PackedProducers) else ProducerTable(entries).view()


def _without_marks(bucket: Bucket) -> Bucket:
    return {key: packed for key, packed in bucket.items() if key >= 0}
