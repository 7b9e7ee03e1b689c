"""A compacted partition's files: batches are put where a test wants them, cleaned, swapped and read back."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from libs.commitlog.cleaner.cleaning import clean_with
from libs.commitlog.cleaner.job import CleanJob, CleanResult, ProducerEnd, SourceSegment
from libs.commitlog.cleaner.pace import JobTime
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.wire.record_batches.batches import BatchHeader, BatchView, iter_batches
from libs.wire.record_batches.markers import Marker, build_marker
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.commitlog.harness import QuickFileSystem

NOW_MS = 1_700_000_000_000
RETENTION_MS = 86_400_000


class VirtualPace:
    """A clock that advances only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def pace(self) -> JobTime:
        return JobTime(lambda: self.now, self.sleep)


class Kept(NamedTuple):
    """A record as a reader without isolation sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class CompactedPartition:
    """A partition under compaction. Segments are files from the start, and `roll` ends one. The last one is active and never
    cleaned."""

    def __init__(self, path: Path, fs: FileSystem | None = None) -> None:
        self.path = path
        self.fs = fs or QuickFileSystem()
        self.next_offset = 0
        self.bases = [0]
        self.checkpoint = 0
        self.now_ms = NOW_MS
        self.leader_epoch = 3
        self.producers: dict[int, ProducerEnd] = {}
        self.aborted: list[AbortedTransaction] = []
        self.reports: list[object] = []
        self.open: dict[int, int] = {}  # producer → first offset of its transaction
        self._sequences: dict[int, int] = {}
        self._write(self.log_of(0), b"")

    def log_of(self, base: int) -> Path:
        return self.path / f"{base:020d}.log"

    def put(self, *records: Record, **fields: Any) -> int:
        """Appends one batch and returns its base offset."""
        offset = self.next_offset
        producer_id = fields.get("producer_id", -1)
        if producer_id >= 0:
            fields = {"producer_epoch": 0, "base_sequence": self._sequences.get(producer_id, 0), **fields}
            self._sequences[producer_id] = fields["base_sequence"] + len(records)
            self.producers[producer_id] = ProducerEnd(offset + len(records) - 1, fields["producer_epoch"])
            if fields.get("transactional"):
                self.open.setdefault(producer_id, offset)
        self._append(build_batch(records, base_offset=offset, leader_epoch=self.leader_epoch, **fields), offset + len(records))
        return offset

    def put_values(self, *pairs: tuple[bytes | None, bytes | None], **fields: Any) -> int:
        return self.put(*[Record(key, value, self.now_ms - 1000 + i) for i, (key, value) in enumerate(pairs)], **fields)

    def end_transaction(self, producer_id: int, *, aborts: bool, epoch: int = 0) -> int:
        offset = self.next_offset
        marker = build_marker(
            Marker(aborts, 7),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=self.now_ms,
            base_offset=offset,
            leader_epoch=self.leader_epoch,
        )
        self._append(marker, offset + 1)
        first = self.open.pop(producer_id, None)
        if first is not None and aborts:
            stable = min(self.open.values(), default=offset + 1)
            self.aborted.append(AbortedTransaction(producer_id, first, offset, stable))
        return offset

    def skip(self, offsets: int) -> None:
        self.next_offset += offsets

    def roll(self) -> None:
        if self.log_of(self.bases[-1]).stat().st_size:
            self.bases.append(self.next_offset)
            self._write(self.log_of(self.next_offset), b"")

    @property
    def stable_offset(self) -> int:
        return min(self.open.values(), default=self.next_offset)

    def job(self, **fields: Any) -> CleanJob:
        ends = [*self.bases[1:], self.next_offset]
        sources = [
            SourceSegment(base, end, self.log_of(base).stat().st_size)
            for base, end in zip(self.bases[:-1], ends, strict=False)
            if end <= self.stable_offset
        ]
        return CleanJob(**{
            "directory": str(self.path), "segments": tuple(sources), "log_start_offset": 0,
            "first_dirty_offset": self.checkpoint, "end_offset": sources[-1].next_offset if sources else self.checkpoint,
            "now_ms": self.now_ms, "delete_retention_ms": RETENTION_MS, "segment_bytes": 1 << 20,
            "segment_index_bytes": 1 << 16, "index_interval_bytes": 200, "max_message_bytes": 1 << 20, "map_bytes": 1 << 20,
            "bytes_per_second": 0, "producers": self.producers, "aborted": tuple(self.aborted), **fields,
        })  # fmt: skip

    def clean(self, *, pace: JobTime | None = None, **fields: Any) -> CleanResult:
        """Runs one pass and its swap."""
        result = clean_with(self.fs, self.job(**fields), self.reports.append, pace or VirtualPace().pace)
        for output in result.segments:
            for base in output.sources:
                for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                    (self.path / f"{base:020d}{suffix}").unlink(missing_ok=True)
                if base != output.base_offset:
                    self.bases.remove(base)
            for path in self.path.glob(f"{output.base_offset:020d}.*.cleaned"):
                path.rename(path.with_suffix(""))
        assert list(self.path.glob("*.cleaned")) == []
        self.checkpoint = result.end_offset
        return result

    def batches(self, end_offset: int | None = None) -> list[BatchView]:
        whole_log = [batch for base in self.bases for batch in iter_batches(self.log_of(base).read_bytes())]
        assert all(batch.crc_matches for batch in whole_log)
        return [batch for batch in whole_log if end_offset is None or batch.header.base_offset < end_offset]

    def headers(self) -> list[BatchHeader]:
        return [batch.header for batch in self.batches()]

    def records(self, end_offset: int | None = None) -> list[Kept]:
        """All data records, aborted ones too."""
        return [
            Kept(record.offset, record.key, record.value, record.timestamp, record.headers)
            for batch in self.batches(end_offset)
            if not batch.header.is_control
            for record in iter_records(batch.view)
        ]

    def offsets(self) -> list[int]:
        return [record.offset for record in self.records()]

    def markers(self) -> list[int]:
        return [header.base_offset for header in self.headers() if header.is_control and header.record_count]

    def change(self, base: int, how: Callable[[bytearray], object]) -> None:
        content = bytearray(self.log_of(base).read_bytes())
        how(content)
        self.log_of(base).write_bytes(content)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.path.iterdir())}

    def _append(self, batch: bytes | bytearray, next_offset: int) -> None:
        with open(self.log_of(self.bases[-1]), "ab") as file:
            file.write(batch)
        self.next_offset = next_offset

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        path.write_bytes(content)


def pairs(records: Iterable[Kept]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]
