"""A partition's log in memory, with the producers' state that the real log keeps: `libs/commitlog/producers`."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.producers.transaction_index import AbortedTransaction, TransactionIndex
from libs.commitlog.segments.segment_batches import BatchMeta
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import Marker, read_marker


class StoredBatch(NamedTuple):
    content: bytes
    header: BatchHeader
    marker: Marker | None

    @property
    def end(self) -> int:
        return self.header.last_offset + 1


class RecordLog:
    """The part of `libs.commitlog.partition_log.log.Log` that appends and transactions use."""

    log_start_offset = next_start_offset = 0

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.producers = ProducerState()
        self.aborted = TransactionIndex()
        self.durable_offset = 0
        self.epochs = LeaderEpochs()
        self.failing_writes = 0
        """So many appends fail."""

    @classmethod
    def copied(cls, batches: Sequence[StoredBatch], random: Random, resumes_before: int) -> "RecordLog":
        """The log of a follower that has these batches. It may have been started again: then the producers' state up to some
        offset, at most `resumes_before`, is from a resume point."""
        log = cls()
        resumes_at = random.randint(0, resumes_before) if random.random() < 0.4 else -1
        for batch in batches:
            if 0 <= resumes_at <= batch.header.base_offset:
                log.producers, resumes_at = ProducerState(dict(log.producers.entries)), -1
            log.batches.append(batch)
            if batch.header.producer_id >= 0:
                log.producers.replay(batch.header, batch.marker)
                log._note_aborted()
            log._assign_epoch(batch)
        return log

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def append(self, buffers: Sequence[Any], batches: Sequence[BatchMeta]) -> None:
        """Raises LogWriteError."""
        if self.failing_writes:
            self.failing_writes -= 1
            self.producers.revert()
            raise LogWriteError("a drawn failure", fatal=False)
        for buffer in buffers:
            content = bytes(buffer)
            header = BatchHeader.at(memoryview(content))
            batch = StoredBatch(content, header, read_marker(content) if header.is_control else None)
            self.batches.append(batch)
            self._assign_epoch(batch)
        self.producers.commit()
        self._note_aborted()

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = self.producers.transactions.first_unstable(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def between(self, start: int, end: int) -> list[StoredBatch]:
        """Whole batches in [start, end)."""
        found = []
        for batch in reversed(self.batches):
            if batch.header.base_offset < start:
                break
            if batch.end <= end:
                found.append(batch)
        return found[::-1]

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        self.aborted.collect(start, end, found)
        return found

    def up_to(self, end: int) -> list[StoredBatch]:
        return [batch for batch in self.batches if batch.end <= end]

    def _note_aborted(self) -> None:
        for ended in self.producers.take_ended():
            if ended.aborted:
                self.aborted.append(ended)

    def _assign_epoch(self, batch: StoredBatch) -> None:
        epoch = batch.header.leader_epoch
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, batch.header.base_offset)
