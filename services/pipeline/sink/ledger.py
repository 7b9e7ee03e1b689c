"""The ledger: a compacted topic that says which task of which epoch is written. An entry commits in its data's transaction.

Entries of one sink lie in one partition. Other tasks' transactions are open there at any time, so a read up to the last stable
offset could miss an entry of ours that is committed. `read` therefore reads all that is replicated, and minds the markers.
Compaction keeps a transaction's marker as long as any of its records.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

from libs.wire.record_batches.batches import iter_batches
from libs.wire.record_batches.markers import read_marker
from libs.wire.record_batches.records import iter_records
from services.pipeline.sink.client.cluster import ClusterClient
from services.pipeline.sink.client.requests import TopicPartition, fetch, high_watermark

FORMAT = 2


@dataclass(frozen=True)
class LedgerEntry:
    """One task's part of an epoch. `tasks`: of the whole epoch, None if the task could not know.

    `fingerprint`: a sum over the rows that does not depend on their order. `writer`: the streaming query, or the job, that wrote.
    `run`: one driver's attempt at the epoch; "" in entries of format 1.
    """

    sink_id: str
    task: int
    epoch: int
    tasks: int | None
    topic: str
    writer: str
    rows: int = 0
    payload_bytes: int = 0
    fingerprint: int = 0
    run: str = ""

    def key(self) -> bytes:
        return f"{self.sink_id}/{self.task}".encode()

    def value(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()


def entry_of(value: bytes) -> LedgerEntry:
    content = json.loads(value)
    content.pop("format")
    return LedgerEntry(**content)


@dataclass(frozen=True)
class LedgerView:
    """Committed entries by key. A later read goes on at `position`."""

    position: int = 0
    entries: Mapping[str, LedgerEntry] = field(default_factory=dict)

    def of_sink(self, sink_id: str) -> "LedgerView":
        return LedgerView(self.position, {key: entry for key, entry in self.entries.items() if entry.sink_id == sink_id})


@dataclass
class _Undecided:
    """Entries of one open transaction, and where the first of them lies."""

    first_offset: int
    entries: dict[str, bytes | None] = field(default_factory=dict)


def read(cluster: ClusterClient, place: TopicPartition, view: LedgerView, *, through: int | None = None) -> LedgerView:
    """The view with what has come since. `through`: an offset that must be covered; None: as far as a leader now tells.

    A leader that does not know of its successor may tell an old high watermark, never a false one. So a caller that must not miss
    an entry writes to the partition first, and names that record's offset.
    """
    end = (
        cluster.retrying("ListOffsets of the ledger", lambda: cluster.ask_leader(*place, partial(high_watermark, place=place)))
        if through is None
        else through + 1
    )
    reading = _Reading(view.position, dict(view.entries))
    while reading.offset < end:
        records = cluster.retrying(
            "Fetch of the ledger", lambda: cluster.ask_leader(*place, partial(fetch, place=place, offset=reading.offset))
        )
        reading.take(records)
    return reading.view()


class _Reading:
    """Decides entries in log order: a transaction's entries count from its commit marker on."""

    def __init__(self, offset: int, entries: dict[str, LedgerEntry]) -> None:
        self.offset = offset
        self._entries = entries
        self._undecided: dict[int, _Undecided] = {}

    def take(self, records: bytes | memoryview) -> None:
        for batch in iter_batches(records):
            header = batch.header
            if header.last_offset < self.offset:
                continue
            if header.is_control:
                self._decide(header.producer_id, batch.view)
            elif header.is_transactional:
                undecided = self._undecided.setdefault(header.producer_id, _Undecided(header.base_offset))
                undecided.entries |= {(record.key or b"").decode(): record.value for record in iter_records(batch.view)}
            self.offset = header.last_offset + 1

    def view(self) -> LedgerView:
        """A later read begins before the first transaction that is still open."""
        position = min([self.offset, *(undecided.first_offset for undecided in self._undecided.values())])
        return LedgerView(position, self._entries)

    def _decide(self, producer_id: int, control_batch: memoryview) -> None:
        marker = read_marker(control_batch)
        undecided = self._undecided.pop(producer_id, None) if marker else None
        if marker and undecided and not marker.aborts:
            self._apply(undecided)

    def _apply(self, undecided: _Undecided) -> None:
        for key, value in undecided.entries.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry_of(value)
