"""The plain model of a disk, as lists: recovered logs are compared with it."""

from bisect import bisect_right
from dataclasses import dataclass, field

from libs.commitlog.producers.producer_state import CachedBatch, ProducerEntry, ProducerState
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.wire.record_batches.batches import BatchHeader, iter_batches
from libs.wire.record_batches.markers import Marker, read_marker
from tests.simulation.content import Content


@dataclass(slots=True, eq=False)
class PartitionModel:
    """One partition: what is in its log, what was appended to it ever, and how much of that its owner was told to be durable."""

    topic: str
    index: int
    topic_id: bytes
    stage: str = "creating"  # present, deleting, gone
    named: bool = False  # its owner may rely on its being there: it was created, or a round was over
    content: Content = field(default_factory=Content)
    others: list[Content] = field(default_factory=list)
    """What a crash may show instead: a swap of segments is under way, or was given up."""
    appended: list[BatchHeader] = field(default_factory=list)  # cleaned or deleted since, but not cut off
    markers: dict[int, Marker] = field(default_factory=dict)  # of those, by offset
    end: int = 0
    start_seen: int = 0
    """Readers know that the log starts there: it never goes back."""
    start_said: int = 0
    """It may start there after a crash, and nothing before it must be there."""
    durable: int = 0
    committed: int = 0  # what the checkpoint on disk may say to be committed: no truncation goes below it
    cleaned: int = (
        0  # swaps may have come that far; a cleaner never passes what is committed, so no truncation goes below it either
    )
    claimed: int = 0
    """The cleaned offset on disk may be as high as that."""
    vanished: bool = False  # somebody removed its directory by hand
    staged: int = 0  # of the batches, those at the end whose append has not returned
    cutting: int | None = None  # a truncation to this offset has begun
    rewound: bool = False
    """It was truncated, or read from its beginning: of each producer, fewer than five batches may be known."""
    refused: set[bytes] = field(default_factory=set)  # batches whose append failed after some of it may have been written
    horizons: dict[int, int] = field(default_factory=dict)  # by offset: from when on a cleaner may take a tombstone or a marker
    _producers: list[dict[int, ProducerEntry]] = field(default_factory=lambda: [{}])

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic_id, self.index

    @property
    def headers(self) -> list[BatchHeader]:
        return self.content.headers

    @property
    def floor(self) -> int:
        """The least that a crash must leave: the end offset of the durable records."""
        return self.durable if self.cutting is None else min(self.durable, self.cutting)

    def add(self, batch: bytes) -> None:
        header = BatchHeader.at(batch)
        assert header.base_offset == self.end
        for content in (self.content, *self.others):
            content.add(batch)
        self.appended.append(header)
        self.end = header.last_offset + 1
        state = ProducerState(dict(self._producers[-1]))
        if header.producer_id >= 0:
            marker = read_marker(batch) if header.is_control else None
            if marker is not None:
                self.markers[header.base_offset] = marker
            state.replay(header, marker)
        self._producers.append(dict(state.entries))

    def cut(self, end_offset: int) -> None:
        """The log ends there: batches that do not lie wholly before it are gone."""
        for content in (self.content, *self.others):
            content.keep(content.first_from(end_offset))
        count = self._count(end_offset)
        del self.appended[count:], self._producers[count + 1 :]
        self.markers = {offset: marker for offset, marker in self.markers.items() if offset < end_offset}
        self.horizons = {offset: horizon for offset, horizon in self.horizons.items() if offset < end_offset}
        self.end = end_offset

    def end_if_cut(self, offset: int, start_offset: int) -> int:
        """The end offset after a truncation to `offset`."""
        slot = self.content.first_from(offset)
        held = self.headers[slot].base_offset if slot < len(self.headers) else offset
        return max(start_offset, min(offset, held, self.end))

    def with_refused(self, shown: Content, found: bytes, first_offset: int) -> "PartitionModel":
        """As Kafka's, an append that failed may leave whole batches behind the durable ones: this model with those of them that
        `found` holds, behind `shown`, one of its contents. Other strangers are left out, so that they are found to be
        strangers."""
        other = PartitionModel(self.topic, self.index, self.topic_id, self.stage, self.named, shown.copy())
        for name in (
            "start_seen",
            "start_said",
            "durable",
            "committed",
            "cleaned",
            "claimed",
            "cutting",
            "rewound",
            "refused",
            "end",
        ):
            setattr(other, name, getattr(self, name))
        other.appended, other.markers, other.horizons = list(self.appended), dict(self.markers), dict(self.horizons)
        other._producers = list(self._producers)
        number = shown.first_from(first_offset)
        for batch in iter_batches(found):
            content, base = bytes(batch.view), batch.header.base_offset
            if number < len(other.headers) and content == other.content.batch(number):
                number += 1
                continue
            if not (base >= self.floor and content in self.refused):
                break
            other.cut(base)
            number += 1
            other.add(content)
        return other

    def _count(self, end_offset: int) -> int:
        """The number of appended batches that lie wholly before the offset."""
        return bisect_right(self.appended, end_offset, key=lambda header: header.last_offset + 1)

    def producers(self, end_offset: int) -> dict[int, ProducerEntry]:
        return self._producers[self._count(end_offset)]

    def batches_of(self, producer_id: int, end_offset: int) -> list[CachedBatch]:
        """All that this producer ever appended before it."""
        states = self._producers[1 : self._count(end_offset) + 1]
        newest = [state[producer_id].batches[-1:] for state in states if producer_id in state]
        return list(dict.fromkeys(batch for batches in newest for batch in batches))

    def transactions(self, end_offset: int) -> tuple[list[AbortedTransaction], list[int]]:
        """Before it: what was aborted, in the order of the markers, and where those began that go on."""
        began: dict[int, int] = {}
        aborted: list[AbortedTransaction] = []
        for header in self.appended[: self._count(end_offset)]:
            if not header.is_transactional:
                continue
            offset, producer_id = header.base_offset, header.producer_id
            if not header.is_control:
                began.setdefault(producer_id, offset)
                continue
            first = began.pop(producer_id)
            if self.markers[offset].aborts:
                aborted.append(AbortedTransaction(producer_id, first, offset, min(began.values(), default=offset + 1)))
        return aborted, sorted(began.values())

    def stable(self) -> int:
        return min(self.transactions(self.end)[1], default=self.end)

    def epochs(self, end_offset: int, start_offset: int) -> list[tuple[int, int]]:
        """Each leader epoch of the batches, and where it began, as far as it reaches past the log's start."""
        found: list[tuple[int, int]] = []
        for header in self.appended[: self._count(end_offset)]:
            if not found or header.leader_epoch > found[-1][0]:
                found.append((header.leader_epoch, header.base_offset))
        first = bisect_right(found, start_offset, key=lambda entry: entry[1]) - 1
        return [(found[first][0], start_offset), *found[first + 1 :]] if first >= 0 else found


@dataclass(slots=True)
class DiskModel:
    """A log directory."""

    directory_id: bytes
    partitions: dict[bytes, PartitionModel] = field(default_factory=dict)
    clean: bool | None = False  # None: it may be marked clean, or not

    def deleted(self) -> list[bytes]:
        """Ids of topics that are not gone from the disk yet, as far as is known."""
        return [topic_id for topic_id, partition in self.partitions.items() if partition.stage == "deleting"]

    def present(self) -> list[PartitionModel]:
        return [partition for partition in self.partitions.values() if partition.stage == "present"]
