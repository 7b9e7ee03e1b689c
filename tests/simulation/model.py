"""What must be on a disk, as plain lists: the dumb model that recovered logs are held to."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from libs.commitlog.producers import ProducerEntry, ProducerState
from libs.commitlog.transaction_index import AbortedTransaction
from libs.wire.batches import BatchHeader, iter_batches
from libs.wire.markers import read_marker


@dataclass(slots=True, eq=False)
class PartitionModel:
    """One partition: every batch that is in its log, and how much of that its owner was told to be durable."""

    topic: str
    index: int
    topic_id: bytes
    stage: str = "creating"  # present, deleting, gone
    named: bool = False  # its owner may rely on its being there: it was created, or a round was over
    data: bytearray = field(default_factory=bytearray)
    headers: list[BatchHeader] = field(default_factory=list)
    places: list[int] = field(default_factory=lambda: [0])  # where in `data` each batch begins, and where the last ends
    durable: int = 0
    staged: int = 0  # of the batches, those at the end whose append has not returned
    cutting: int | None = None  # a truncation to this offset has begun
    rewound: bool = False  # it was truncated: of each producer, fewer than five batches may be known
    refused: set[bytes] = field(default_factory=set)  # batches whose append failed after some of it may have been written
    _producers: list[dict[int, ProducerEntry]] = field(default_factory=lambda: [{}])

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def end(self) -> int:
        return self.headers[-1].last_offset + 1 if self.headers else 0

    @property
    def floor(self) -> int:
        """What a crash must leave at least: the end offset of the durable records."""
        return self.durable if self.cutting is None else min(self.durable, self.cutting)

    def add(self, batch: bytes) -> None:
        header = BatchHeader.at(batch)
        assert header.base_offset == self.end
        self.data += batch
        self.headers.append(header)
        self.places.append(len(self.data))
        state = ProducerState(dict(self._producers[-1]))
        if header.producer_id >= 0:
            state.replay(header, read_marker(batch) if header.is_control else None)
        self._producers.append(state.entries)

    def keep(self, count: int) -> None:
        """The first `count` batches, and no others, are in the log."""
        del self.headers[count:], self._producers[count + 1 :], self.places[count + 1 :]
        del self.data[self.places[count] :]

    def with_refused(self, content: bytes) -> "PartitionModel":
        """As Kafka's, an append that failed may leave whole batches behind the durable ones: this model with those of them that
        `content` holds. Other strangers are left out, so that they are found to be strangers."""
        other = PartitionModel(self.topic, self.index, self.topic_id, self.stage, durable=self.durable, cutting=self.cutting)
        other.rewound, other.named = self.rewound, self.named
        other.refused = self.refused
        for number, found in enumerate(iter_batches(content)):
            batch = bytes(found.view)
            known = number < len(self.headers) and batch == self.batch(number)
            refused = found.header.base_offset >= self.floor and batch in self.refused
            if not (known or refused) or found.header.base_offset != other.end:
                break
            other.add(batch)
        return other

    def batch(self, number: int) -> bytes:
        return bytes(self.data[self.places[number] : self.places[number + 1]])

    def count_before(self, offset: int) -> int:
        """How many batches lie wholly before `offset`."""
        return bisect_right(self.headers, offset, key=lambda header: header.last_offset + 1)

    def count_of(self, size: int) -> int | None:
        """How many batches are so many bytes; None if none end there."""
        slot = bisect_left(self.places, size)
        return slot if slot < len(self.places) and self.places[slot] == size else None

    def end_of(self, count: int) -> int:
        return self.headers[count - 1].last_offset + 1 if count else 0

    def producers(self, count: int) -> dict[int, ProducerEntry]:
        return self._producers[count]

    def transactions(self, count: int) -> tuple[list[AbortedTransaction], list[int]]:
        """Of the first `count` batches: what was aborted, in the order of the markers, and where those began that go on."""
        began: dict[int, int] = {}
        aborted: list[AbortedTransaction] = []
        for number, header in enumerate(self.headers[:count]):
            if not header.is_transactional:
                continue
            offset, producer_id = header.base_offset, header.producer_id
            if not header.is_control:
                began.setdefault(producer_id, offset)
                continue
            first = began.pop(producer_id)
            marker = read_marker(self.batch(number))
            if marker is not None and marker.aborts:
                aborted.append(AbortedTransaction(producer_id, first, offset, min(began.values(), default=offset + 1)))
        return aborted, sorted(began.values())

    def epochs(self, count: int) -> list[tuple[int, int]]:
        """Each leader epoch of the batches, and where it began."""
        found: list[tuple[int, int]] = []
        for header in self.headers[:count]:
            if not found or header.leader_epoch > found[-1][0]:
                found.append((header.leader_epoch, header.base_offset))
        return found


@dataclass(slots=True)
class DiskModel:
    """A log directory."""

    directory_id: bytes
    partitions: dict[bytes, PartitionModel] = field(default_factory=dict)
    clean: bool | None = False  # None: it may be marked clean, or not

    def present(self) -> list[PartitionModel]:
        return [partition for partition in self.partitions.values() if partition.stage == "present"]
