"""A compacted topic: who writes to it and reads it, and what must be left of it (11).

The history of the other topics' clients is judged by `tests.history`, which knows no keys. What is acknowledged here is at its
offset for good, or a later record of its key is in the log; no offset ever shows another record.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import HEADER_SIZE, LENGTH_END
from libs.wire.record_batches.batches import BatchHeader, iter_batches
from libs.wire.record_batches.markers import read_marker
from libs.wire.record_batches.records import Record, iter_records
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import REQUEST_S, RETRIABLE, RETRY_S, STAMP_MS, Client, Producer, Values, key_of
from tests.simulation.cluster.kafka_client import Disconnected, Partition
from tests.simulation.cluster.recorder import Recorder
from tests.simulation.cluster.world import World
from tests.simulation.compacted import Keyed

KEYS = 15
TOMBSTONES = 0.1
PAUSE_S = 2.0


Entries = Mapping[int, Keyed]


class Names:
    """The records of a compacted partition that are known. `topic_id`: with it, no other topic of that name is meant."""

    def __init__(self, world: World, partition: Partition, topic_id: bytes | None = None) -> None:
        self.world, self.partition, self.topic_id = world, partition, topic_id
        self.operations = 0
        self._acknowledged: dict[int, Keyed] = {}
        self._known: dict[int, Keyed] = {}

    def acknowledged(self, offset: int, entry: Keyed) -> None:
        self._acknowledged[offset] = entry
        self.saw({offset: entry})

    def saw(self, entries: Entries) -> None:
        for offset, entry in entries.items():
            known = self._known.setdefault(offset, entry)
            if known != entry:
                self._violation(f"offset {offset} is {entry}, and was {known}")

    def left(self, entries: Entries) -> None:
        """All that is in the log in the end."""
        self.saw(entries)
        last = latest(entries)
        for offset, entry in self._acknowledged.items():
            if offset not in entries and last.get(entry.key, -1) < offset:
                self._violation(f"{entry} at {offset} is gone, and of its key nothing later is left")

    def _violation(self, what: str) -> None:
        self.world.violation(f"11: {key_of(self.partition)}: {what}")


def latest(entries: Entries) -> dict[bytes, int]:
    """The last offset of each key."""
    return {entry.key: offset for offset, entry in sorted(entries.items())}


def differences(replicas: Sequence[tuple[str, Entries]], end: int) -> Iterable[str]:
    """Below `end`. Each may have been compacted as far as it likes, for the sake of what it holds beyond that, too."""
    seen: dict[int, tuple[str, Keyed]] = {}
    lasts = [(who, latest(entries)) for who, entries in replicas]
    for who, entries in replicas:
        for offset, entry in entries.items():
            if offset < end:
                other, known = seen.setdefault(offset, (who, entry))
                if known != entry:
                    yield f"offset {offset} is {entry} on {who}, and {known} on {other}"
    for key, offset in latest({offset: entry for offset, (_, entry) in seen.items()}).items():
        for who, last in lasts:
            if last.get(key, -1) < offset:
                yield f"{who} has {last.get(key)} as the last offset of {key!r}, and {seen[offset][0]} has {offset}"


def entries_in(batches: bytes) -> dict[int, Keyed]:
    found: dict[int, Keyed] = {}
    start = 0
    while start + HEADER_SIZE <= len(batches):
        end = start + LENGTH_END + int.from_bytes(batches[start + 8 : start + LENGTH_END], "big")
        if end > len(batches):
            break
        for record in iter_records(batches[start:end]):
            assert record.key is not None
            found[record.offset] = Keyed(bytes(record.key), None if record.value is None else bytes(record.value))
        start = end
    return found


def committed_entries(replicas: Sequence[tuple[str, bytes]]) -> list[tuple[str, Entries]]:
    """The entries of each replica whose fate is decided, and that were not aborted. One replica may lack the marker yet."""
    ends: dict[int, dict[int, bool]] = {}
    for _, batches in replicas:
        for batch in iter_batches(batches):
            marker = read_marker(batch.view) if batch.header.is_control else None
            if marker is not None:
                ends.setdefault(batch.header.producer_id, {})[batch.header.base_offset] = marker.aborts

    def counts(header: BatchHeader) -> bool:
        if not header.is_transactional:
            return True
        later = [offset for offset in ends.get(header.producer_id, ()) if offset > header.base_offset]
        return not header.is_control and bool(later) and not ends[header.producer_id][min(later)]

    found: list[tuple[str, Entries]] = []
    for who, batches in replicas:
        counted = b"".join(bytes(batch.view) for batch in iter_batches(batches) if counts(batch.header))
        found.append((who, entries_in(counted)))
    return found


class NamesProducer(Producer):
    """Idempotent, and waits for the ISR."""

    def __init__(self, client: Client, recorder: Recorder, names: Names, values: Values) -> None:
        super().__init__(client, recorder, [names.partition], values, idempotent=True, acks=-1)
        self._names = names
        self._entries: list[Keyed] = []

    def _records(self, values: list[int]) -> list[Record]:
        return [Record(entry.key, entry.value, STAMP_MS) for entry in self._entries]

    def _next_entries(self, values: list[int]) -> list[Keyed]:
        return [
            Keyed(b"name-%d" % self._random.randrange(KEYS), None if self._random.random() < TOMBSTONES else b"%d" % value)
            for value in values
        ]

    async def send(self, partition: Partition) -> bool:
        if not self._process:
            await self._begin()
            if not self._process:
                return False
        values = [self._values.next() for _ in range(self._random.choice((1, 1, 2, 5)))]
        self._entries = self._next_entries(values)
        error, offset = await self._deliver(partition, values)
        self._names.operations += 1
        if error == ErrorCode.NONE:
            for at, entry in enumerate(self._entries if offset >= 0 else ()):
                self._names.acknowledged(offset + at, entry)
            return True
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            what = f"9: producer {self._producer} at {key_of(partition)}: out of order after {values}: an answered batch is gone"
            self._client.world.violation(what)
        await self._begin()
        return False


class NamesReader:
    """Reads on and on from the beginning."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client, self._names = client, names
        self.stopping = False

    async def run(self) -> None:
        """Reads until it is stopped."""
        position, random = 0, self._client.random
        while not self.stopping:
            found = await self.poll(position)
            self._names.saw(found)
            position = 0 if random.random() < 0.2 else max(found, default=position - 1) + 1
            await asyncio.sleep(random.expovariate(1 / PAUSE_S))

    async def read_all(self, end: int) -> dict[int, Keyed]:
        entries: dict[int, Keyed] = {}
        while (position := max(entries, default=-1) + 1) < end:
            entries.update(await self.poll(position))
        return entries

    async def poll(self, position: int) -> dict[int, Keyed]:
        return (await self.fetch(position))[0]

    async def fetch(self, position: int) -> tuple[dict[int, Keyed], int]:
        """The entries from there on, and the next position. Behind what was compacted that may be far from the last entry."""
        client, partition = self._client, self._names.partition
        self._names.operations += 1
        try:
            link = await client.leader(partition)
            if link is None:
                await asyncio.sleep(RETRY_S)
                return {}, position
            (answer,) = await kafka_client.fetch(
                *(link, {partition: position}, REQUEST_S),
                max_wait_ms=300,
                max_bytes=1 << 20,
                topic_id=self._names.topic_id,
            )
        except Disconnected:
            await client.refresh()
            return {}, position
        if answer.error:
            if answer.error not in RETRIABLE:
                said = ErrorCode(answer.error).name
                client.world.violation(f"4: {key_of(partition)} at {position}: a consumer is told {said}")
            await client.refresh()
            await asyncio.sleep(RETRY_S)
            return {}, position
        found = {offset: entry for offset, entry in entries_in(answer.records).items() if offset >= position}
        if found and max(found) >= answer.high_watermark:
            what = f"offset {max(found)} was read, and the high watermark is {answer.high_watermark}"
            client.world.violation(f"3: {key_of(partition)}: {what}")
        return found, max(position, kafka_client.end_of(answer.records))
