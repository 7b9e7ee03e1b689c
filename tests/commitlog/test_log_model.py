"""A model of the log: whatever happens to it, it equals a list of batches."""

import errno
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import CachedBatch, ProducerState
from libs.commitlog.segments.segment_removal import remove_retired
from libs.wire.record_batches.batches import BatchHeader
from tests.commitlog.cleaned import clean_by_hand, planned
from tests.commitlog.harness import (
    FaultyFileSystem,
    QuickFileSystem,
    append,
    batch_at,
    offset_for_timestamp,
    open_log,
    read_batches,
    sync,
)

CONFIGS = [
    LogConfig(segment_bytes=700, segment_index_bytes=120, index_interval_bytes=150),
    LogConfig(segment_bytes=5000, segment_index_bytes=64, index_interval_bytes=1),
    LogConfig(),
]


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.model: list[bytes] = []
        self.history: list[bytes] = []  # batches that retention took included, since producers outlive them
        self.start = 0
        self.last_end = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.config = CONFIGS[0]
        self.log: Log = open_log(self.path, config=self.config)

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    @property
    def end(self) -> int:
        return max(BatchHeader.at(self.model[-1]).last_offset + 1 if self.model else 0, self.last_end)

    @rule(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), producer=st.integers(-1, 2), size=st.integers(0, 150))
    def append(self, counts: list[int], producer: int, size: int) -> None:
        group, offset = [], self.end
        for count in counts:
            fields = {}
            if producer >= 0:
                sequence = self.sequences.get(producer, 0)
                self.sequences[producer] = sequence + count
                fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            group.append(batch_at(offset, count=count, size=size, epoch=self.epoch, timestamp=offset * 7 % 100, **fields))
            offset += count
        append(self.log, *group)
        self.model += [bytes(batch) for batch in group]
        self.history += self.model[-len(group) :]

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.epochs.assign(self.epoch, self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(resume_point=st.booleans())
    def sync(self, resume_point: bool) -> None:
        sync(self.log, resume_point=resume_point)
        assert self.log.durable_offset == self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        headers = [BatchHeader.at(batch) for batch in self.model]
        expected = next((header.base_offset for header in headers if header.base_offset < offset <= header.last_offset), offset)
        new_end = self.log.truncate_to(offset)
        self.model = [batch for batch in self.model if BatchHeader.at(batch).last_offset < offset]
        self.history = [batch for batch in self.history if BatchHeader.at(batch).last_offset < offset]
        if expected < self.start:  # it lay within the batch that went
            self.model, expected = [], self.start
        self.last_end = expected
        assert new_end == self.log.log_end_offset == self.end
        # Sequences go on from what the log knows, as a producer that saw the truncation would.
        for producer, entry in self.log.producers.entries.items():
            self.sequences[producer] = entry.batches[-1].last_sequence + 1

    @rule(data=st.data(), crash=st.booleans())
    def delete(self, data: st.DataObject, crash: bool) -> None:
        """Deletes records. `crash`: only the new start reached the disk."""
        offset = data.draw(st.integers(self.start, self.end))
        self.start = offset
        self.log.delete_before(offset, self.end)
        if crash:
            self.log = open_log(self.path, config=self.config, log_start_offset=offset)
        else:
            self.log.advance_start()
            retired = self.log.retire_segments()
            if retired is not None:
                remove_retired(QuickFileSystem(), retired.rename(QuickFileSystem()))
        self.forget_what_left()

    def forget_what_left(self) -> None:
        first = self.log.segments[0].base_offset
        assert first <= self.start
        self.last_end = self.end
        self.model = [batch for batch in self.model if BatchHeader.at(batch).base_offset >= first]

    @rule(data=st.data(), modulus=st.integers(1, 4), crash_after=st.integers(0, 20))
    def compact(self, data: st.DataObject, modulus: int, crash_after: int) -> None:
        """Replaces neighbouring segments by one. Of the batches without a producer only some stay. The renaming may stop
        halfway."""
        sync(self.log, resume_point=True)
        sealed = self.log.segments[:-1]
        if not sealed:
            return
        first = data.draw(st.integers(0, len(sealed) - 1))
        sources = sealed[first : data.draw(st.integers(first + 1, len(sealed)))]
        start, end = sources[0].base_offset, sources[-1].next_offset

        def stays(batch: bytes) -> bool:
            header = BatchHeader.at(batch)
            return header.producer_id >= 0 or header.base_offset % modulus == 0 or not start <= header.base_offset < end

        fs = FaultyFileSystem()
        swap = planned(self.log, sources, clean_by_hand(fs, sources, self.log.directory, stays))
        assert swap.stage(fs)
        self.last_end = self.end
        self.model = [batch for batch in self.model if stays(batch)]
        if crash_after < 10:
            fs.fail("rename", after=crash_after, error=errno.EIO)
            with suppress(LogDamaged, OSError):
                swap.perform(fs)
            self.log = open_log(self.path, config=self.config, log_start_offset=self.start)
            self.forget_what_left()
        else:
            assert self.log.replace_segments(swap, sources)
            remove_retired(fs, swap.settle(fs))

    @rule(clean=st.booleans(), config=st.sampled_from(CONFIGS))
    def reopen(self, clean: bool, config: LogConfig) -> None:
        if clean:
            self.log.close(clean=True)
        self.config = config
        self.log = open_log(self.path, config=config, log_start_offset=self.start)
        self.forget_what_left()
        assert self.log.truncated_bytes == 0
        if clean:
            assert self.log.scanned_bytes == 0
            assert self.log.durable_offset == self.end

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.start, self.end))
        end = data.draw(st.integers(start, self.end))
        expected = []
        for batch in self.model:
            header = BatchHeader.at(batch)
            if header.last_offset >= start and header.last_offset < end:
                expected.append(batch)
        got = [bytes(batch.view) for batch in read_batches(self.log, start, end_offset=end)]
        if not expected and got:
            raise AssertionError("read past the end")
        assert got == expected

    @rule(timestamp=st.integers(0, 110))
    def find_timestamp(self, timestamp: int) -> None:
        result = offset_for_timestamp(self.log, timestamp, self.end)
        stamps = []
        for batch in self.model:
            header = BatchHeader.at(batch)
            offsets = range(max(header.base_offset, self.start), header.last_offset + 1)
            stamps += [(offset, header.base_timestamp + offset - header.base_offset) for offset in offsets]
        expected = next(((offset, stamp) for offset, stamp in stamps if stamp >= timestamp), None)
        assert (result and result[:2]) == expected

    @invariant()
    def the_log_is_the_model(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.durable_offset <= self.log.log_end_offset
        assert self.log.recovery_point <= self.log.durable_offset
        assert self.log.size == sum(len(batch) for batch in self.model)

    @invariant()
    def producers_are_a_function_of_the_log(self) -> None:
        """Producers are a function of the log's whole history. A producer whose batches are all gone may be forgotten, when a
        truncation removed its saved state."""
        entries = {producer: entry.batches[-1] for producer, entry in self.log.producers.entries.items()}
        ever, now = last_batches(self.history), last_batches(self.model)
        assert entries.items() <= ever.items()
        assert now.items() <= entries.items()

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        for batch in self.model:
            header = BatchHeader.at(batch)
            if header.last_offset >= self.start:
                assert self.log.epochs.epoch_for(max(header.base_offset, self.start)) == header.leader_epoch


def last_batches(batches: list[bytes]) -> dict[int, CachedBatch]:
    replayed = ProducerState()
    for batch in batches:
        header = BatchHeader.at(batch)
        if header.producer_id >= 0:
            replayed.replay(header)
    return {producer: entry.batches[-1] for producer, entry in replayed.entries.items()}


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
