"""A model of transactions: committed readers get the same records from it as from the log, and the files agree."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from libs.commitlog.files.durable_files import format_checkpoint
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment_removal import remove_retired
from tests.commitlog.harness import QuickFileSystem, append_some, open_log, sync
from tests.commitlog.transactional import end, produce, read_committed

CONFIGS = [
    LogConfig(segment_bytes=400, segment_index_bytes=240, index_interval_bytes=100),
    LogConfig(segment_bytes=2000, segment_index_bytes=240, index_interval_bytes=1),
]
PLAIN, DATA, COMMIT, ABORT = "plain", "data", "commit", "abort"


class Batch(NamedTuple):
    first: int
    records: int
    producer: int
    kind: str

    @property
    def last(self) -> int:
        return self.first + self.records - 1


class Transaction(NamedTuple):
    producer: int
    first: int
    batches: list[Batch]
    marker: Batch | None


def transactions(batches: list[Batch]) -> list[Transaction]:
    complete: list[Transaction] = []
    going: dict[int, list[Batch]] = {}
    for batch in batches:
        if batch.kind == DATA:
            going.setdefault(batch.producer, []).append(batch)
        elif batch.kind in (COMMIT, ABORT) and batch.producer in going:
            written = going.pop(batch.producer)
            complete.append(Transaction(batch.producer, written[0].first, written, batch))
    return complete + [Transaction(producer, written[0].first, written, None) for producer, written in going.items()]


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="transactions-"))
        self.path = self.root / "t-0"
        self.path.mkdir()
        (self.path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", encoding="utf-8")
        self.history: list[Batch] = []  # batches that retention took included
        self.start = 0
        self.high_watermark = 0
        self.log: Log = open_log(self.path, config=CONFIGS[0])

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @property
    def end(self) -> int:
        return self.history[-1].last + 1 if self.history else 0

    def add(self, count: int, producer: int, kind: str) -> None:
        self.history.append(Batch(self.end, count, producer, kind))

    @rule(producer=st.integers(1, 4), count=st.integers(1, 3))
    def write(self, producer: int, count: int) -> None:
        produce(self.log, producer, count=count)
        self.add(count, producer, DATA)

    @rule(count=st.integers(1, 3))
    def write_plain(self, count: int) -> None:
        append_some(self.log, 1, count=count)
        self.add(count, -1, PLAIN)

    @rule(producer=st.integers(1, 4), commit=st.booleans())
    def finish(self, producer: int, commit: bool) -> None:
        end(self.log, producer, commit=commit)
        self.add(1, producer, COMMIT if commit else ABORT)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        ends = [batch.last + 1 for batch in self.history if batch.last >= self.high_watermark]
        self.high_watermark = data.draw(st.sampled_from([self.high_watermark, *ends]))

    @rule(resume_point=st.booleans())
    def sync(self, resume_point: bool) -> None:
        sync(self.log, resume_point=resume_point)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncates, but never committed records, and never into a part that retention has shortened: a producer may be forgotten
        there."""
        batches = [batch for batch in self.history if batch.first >= self.high_watermark]
        if batches and not self.start:
            offset = data.draw(st.sampled_from(batches)).first
            assert self.log.truncate_to(offset) == offset
            self.history = [batch for batch in self.history if batch.first < offset]

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.high_watermark))
        self.log.delete_before(self.start, self.high_watermark)
        (self.root / LOG_START_OFFSETS).write_bytes(format_checkpoint([f"t 0 {self.start}"]))
        self.log.advance_start()
        sync(self.log)
        retired = self.log.retire_segments()
        if retired is not None:
            remove_retired(QuickFileSystem(), retired.rename(QuickFileSystem()))

    @rule(clean=st.booleans(), config=st.sampled_from(CONFIGS))
    def reopen(self, clean: bool, config: LogConfig) -> None:
        if clean:
            self.log.close(clean=True)
            findings = Findings()
            verify(QuickFileSystem(), str(self.path), findings, records=True)
            problems = [finding.message for finding in findings.entries if finding.severity == "problem"]
            assert not problems, problems
        self.open(config)

    @rule()
    def lose_the_indexes(self) -> None:
        self.log.close(clean=True)
        for index in self.path.glob("*.txnindex"):
            index.unlink()
        self.open(CONFIGS[0])

    def open(self, config: LogConfig) -> None:
        self.log = open_log(self.path, config=config, log_start_offset=self.start)
        self.high_watermark = self.end  # a leader alone in the ISR commits the records that it found

    @invariant()
    def the_last_stable_offset_is_the_models(self) -> None:
        assert self.log.log_end_offset == self.end
        unstable = [
            transaction.first
            for transaction in transactions(self.history)
            if transaction.marker is None or transaction.marker.first >= self.high_watermark
        ]
        expected = max(self.start, min([self.high_watermark, *unstable]))
        assert self.log.last_stable_offset(self.high_watermark) == expected

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 300, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        stable = self.log.last_stable_offset(self.high_watermark)
        offset = data.draw(st.integers(self.start, max(self.start, stable)))
        result = read_committed(self.log, self.high_watermark, offset, max_bytes)
        ended = [transaction for transaction in transactions(self.history) if transaction.marker is not None]
        aborted = {
            batch
            for transaction in ended
            if transaction.marker is not None and transaction.marker.kind == ABORT
            for batch in transaction.batches
        }
        wanted = [batch for batch in self.history if batch.kind in (PLAIN, DATA) and batch not in aborted]
        offsets = [at for batch in wanted for at in range(batch.first, batch.last + 1)]
        assert result.offsets == [at for at in offsets if offset <= at < stable]
        true = {
            (transaction.producer, transaction.first)
            for transaction in ended
            if transaction.marker is not None and transaction.marker.kind == ABORT
        }
        assert set(result.aborted) <= true


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
