"""Whatever happens to a log, it equals a list of batches: the dumb model."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from libs.commitlog.config import LogConfig
from libs.commitlog.log import Log
from libs.commitlog.producers import ProducerState
from libs.wire.batches import BatchHeader
from tests.commitlog.harness import append, batch_at, open_log, read_batches, sync

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
        self.durable = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.config = CONFIGS[0]
        self.log: Log = open_log(self.path, config=self.config)

    def teardown(self) -> None:
        shutil.rmtree(self.path)

    @property
    def end(self) -> int:
        return BatchHeader.at(self.model[-1]).last_offset + 1 if self.model else 0

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
        offset = data.draw(st.integers(0, self.end))
        new_end = self.log.truncate_to(offset)
        self.model = [batch for batch in self.model if BatchHeader.at(batch).last_offset < offset]
        assert new_end == self.log.log_end_offset == self.end
        # Sequences go on from what the log knows, as a producer that saw the truncation would.
        for producer, entry in self.log.producers.entries.items():
            self.sequences[producer] = entry.batches[-1].last_sequence + 1

    @rule(clean=st.booleans(), config=st.sampled_from(CONFIGS))
    def reopen(self, clean: bool, config: LogConfig) -> None:
        if clean:
            self.log.close(clean=True)
        known = dict(self.log.producers.entries)
        self.log = open_log(self.path, config=config)
        assert self.log.cut_bytes == 0
        assert {p: e.batches[-1] for p, e in self.log.producers.entries.items()} == {p: e.batches[-1] for p, e in known.items()}
        if clean:
            assert self.log.scanned_bytes == 0
            assert self.log.durable_offset == self.end

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, self.end))
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
        found = self.log.offset_for_timestamp(timestamp, self.end)
        stamps = []
        for batch in self.model:
            header = BatchHeader.at(batch)
            stamps += [(header.base_offset + i, header.base_timestamp + i) for i in range(header.record_count)]
        expected = next(((offset, stamp) for offset, stamp in stamps if stamp >= timestamp), None)
        assert (found and found[:2]) == expected

    @invariant()
    def the_log_is_the_model(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.durable_offset <= self.log.log_end_offset
        assert self.log.recovery_point <= self.log.durable_offset
        assert self.log.size == sum(len(batch) for batch in self.model)

    @invariant()
    def producers_are_a_function_of_the_log(self) -> None:
        replayed = ProducerState()
        for batch in self.model:
            header = BatchHeader.at(batch)
            if header.producer_id >= 0:
                replayed.replay(header)
        assert {p: e.batches[-1] for p, e in self.log.producers.entries.items()} == {
            p: e.batches[-1] for p, e in replayed.entries.items()
        }

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        for batch in self.model:
            header = BatchHeader.at(batch)
            assert self.log.epoch_for(header.base_offset) == header.leader_epoch


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
