"""The committed records of a fetch, found as clients find them: by the listed aborted transactions, and by markers."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import read_marker
from libs.wire.record_batches.records import Record, iter_records
from tests.gateway.kafka_client import Fetched
from tests.simulation.cluster import kafka_client
from tests.simulation.cluster.clients import Consumer, key_of
from tests.simulation.cluster.kafka_client import COMMITTED


class Read(NamedTuple):
    records: list[Record]
    position: int
    """Where to read on: markers and aborted records have offsets, too."""


def committed_in(fetched: Fetched, position: int) -> Read:
    """The committed records from the position on."""
    aborted = sorted(fetched.aborted or (), key=lambda one: one[1])
    aborting: set[int] = set()
    found: list[Record] = []
    after = position
    for batch in kafka_client.batches_of(fetched):
        header = BatchHeader.at(batch)
        after = max(after, header.last_offset + 1)
        while aborted and aborted[0][1] <= header.last_offset:
            aborting.add(aborted.pop(0)[0])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and marker.aborts:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += [record for record in iter_records(batch) if record.offset >= position]
    return Read(found, after)


def committed_by_markers(batches: Iterable[bytes]) -> Iterator[Record]:
    """The committed records of a whole partition, in the order in which they were committed, by its markers alone."""
    open_of: dict[int, list[Record]] = {}
    for batch in batches:
        header = BatchHeader.at(batch)
        if header.is_control:
            marker = read_marker(batch)
            ended = open_of.pop(header.producer_id, [])
            if marker is not None and not marker.aborts:
                yield from ended
        elif header.is_transactional:
            open_of.setdefault(header.producer_id, []).extend(iter_records(batch))
        else:
            yield from iter_records(batch)


def value_of(record: Record) -> int:
    assert record.value is not None
    return int(record.value)


class CommittedReader(Consumer):
    """A consumer with isolation.level=read_committed. It also watches that nothing at or above the last stable offset comes."""

    isolation = COMMITTED
    on_read: Callable[[list[tuple[int, int]]], None] | None = None
    """Told of each (offset, value)."""

    def read(self, answer: Fetched, position: int) -> tuple[list[tuple[int, int]], int]:
        found = committed_in(answer, position)
        if found.position > max(position, answer.last_stable_offset):
            key = key_of((str(answer.topic), answer.index))
            what = f"{found.position} was read up to, and the last stable offset is {answer.last_stable_offset}"
            self._client.world.violation(f"3: {key}: {what}")
        records = [(record.offset, value_of(record)) for record in found.records]
        if self.on_read is not None:
            self.on_read(records)
        return records, found.position
