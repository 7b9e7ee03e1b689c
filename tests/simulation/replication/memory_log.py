"""A log that is a list, and a disk that syncs it after a while: what is beneath the replication of a partition."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.partition_log.log import LONG_MAX
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.reading import Slice
from libs.commitlog.segments.segment_batches import BatchMeta
from tests.simulation.replication.simulator import Simulator

READ_TOGETHER = 4
"""Batches in one answer: whoever was away catches up in steps."""


class _Bytes:
    """Bytes whose slices know what they are of."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, length: int, position: int) -> bytes:
        return self._content[position : position + length]


class MemoryLog:
    """Every batch has one record: batch `n` is offset `n`. The part of `libs.commitlog.partition_log.log.Log` that replication
    uses."""

    log_start_offset = next_start_offset = 0
    truncated_to = LONG_MAX

    def __init__(self, batches: list[bytes], durable: int, epochs: Sequence[tuple[int, int]]) -> None:
        self.producers = ProducerState()
        self.batches = batches
        self.durable_offset = durable
        self.durable_epochs = [entry for entry in epochs if entry[1] <= len(batches)]
        self.epochs = LeaderEpochs(self.durable_epochs)
        for offset, batch in enumerate(batches):
            if (epoch := epoch_of(batch)) > self.epochs.latest:
                self.epochs.assign(epoch, offset)

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def append(self, buffers: Sequence[Any], batches: Sequence[BatchMeta]) -> None:
        data, at = b"".join(buffers), 0
        for batch in batches:
            assert batch.base_offset == batch.last_offset == len(self.batches)
            self.batches.append(data[at : at + batch.size])
            at += batch.size
            if batch.leader_epoch > self.epochs.latest:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        end = min(end_offset, len(self.batches), offset + READ_TOGETHER)
        if offset >= end:
            return None
        content = b"".join(self.batches[offset:end])
        return Slice(_Bytes(content), 0, len(content), offset)  # type: ignore[arg-type]

    def truncate_to(self, offset: int) -> None:
        del self.batches[offset:]
        self.durable_offset = min(self.durable_offset, offset)
        self.epochs.truncate_end(offset)
        self.durable_epochs = self.epochs.entries()

    def begin_anew(self, base_offset: int, start_offset: int) -> None:
        self.truncate_to(0)

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    def after_crash(self, random: Random, *, power: bool) -> "MemoryLog":
        """The log as the next life finds it, synced once open. Without power, unsynced pages are kept up to a drawn offset."""
        kept = len(self.batches)
        if power:
            kept = random.choice((self.durable_offset, random.randint(self.durable_offset, kept)))
        return MemoryLog(self.batches[:kept], kept, self.durable_epochs)


def epoch_of(batch: bytes) -> int:
    return int.from_bytes(batch[12:16], "big", signed=True)


class Sync:
    """The part of `SyncScheduler` that replication uses: one round at a time; `ended` hears of the log's progress."""

    failed = stalled = suspended = False

    def __init__(
        self, simulator: Simulator, log: MemoryLog, random: Random, slowness: Callable[[], float], ended: Callable[[], None]
    ) -> None:
        self._simulator, self._log, self._random = simulator, log, random
        self._slowness, self._ended_well = slowness, ended
        self._dirty = self._running = False
        self._quiet: list[asyncio.Future[None]] = []

    def appended(self, partition: object) -> None:
        self._dirty = True

    request_round = appended

    def mark_urgent(self) -> None:
        pass

    def start_round(self) -> None:
        if self._dirty and not self._running:
            self._dirty, self._running = False, True
            delay_s = (0.0005 + 0.005 * self._random.random()) * self._slowness()
            end, epochs = self._log.log_end_offset, self._log.epochs.entries()
            self._simulator.loop.call_later(delay_s, self._ended, end, epochs)

    def forget(self, partition: object) -> None:
        self._dirty = False

    async def wait_for_round(self) -> None:
        while self._running:
            waiter = self._simulator.loop.create_future()
            self._quiet.append(waiter)
            await waiter

    def fail(self, error: Exception) -> None:
        self._simulator.violation(f"a disk without faults failed: {error!r}")

    def _ended(self, end: int, epochs: list[tuple[int, int]]) -> None:
        self._running = False
        if end > self._log.log_end_offset:
            self._simulator.violation(f"3: {end} are durable of a log that was cut to {self._log.log_end_offset} meanwhile")
        self._log.durable_offset = max(self._log.durable_offset, end)
        self._log.durable_epochs = epochs
        self._ended_well()
        waiting, self._quiet = self._quiet, []
        for waiter in waiting:
            waiter.set_result(None)
        self.start_round()
