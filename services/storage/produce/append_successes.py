"""Answers to appends that are stored as their `acks` asks."""

from collections.abc import Callable, Iterator

from services.storage.partition.append_traces import AppendTraces
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import Staged, StagedAppend
from services.storage.storage_meters import StorageMeters


class AppendSuccesses:
    """`on_committed` is called with the longest wait of the produces that a high watermark has answered. `now` is the time of
    the event loop."""

    def __init__(
        self,
        meters: StorageMeters,
        traces: AppendTraces,
        on_committed: Callable[[Partition, float], None],
        now: Callable[[], float],
    ) -> None:
        self._meters, self._traces, self._on_committed, self._now = meters, traces, on_committed, now

    def answer(self, partition: Partition, append: StagedAppend, now: float) -> None:
        request = append.request
        if request.is_traced or now - request.received_at > self._traces.slow_s:
            for batch in append.split():
                self._traces.answered(partition, batch, now)
        append.succeed()

    def answer_committed(self, partition: Partition) -> None:
        """Answers, in order, the produces that the high watermark has reached."""
        now, longest_s = self._now(), 0.0
        for append in partition.parked.committed(partition.replica.high_watermark):
            longest_s = max(longest_s, now - append.write[2])
            self._answer_reached(partition, append, now)
        if longest_s:
            self._on_committed(partition, longest_s)

    def uncommitted(self, partition: Partition, append: StagedAppend) -> Iterator[Staged]:
        """Answers the batches of a parked append that are committed, since the high watermark may stand within a run. Yields the
        others."""
        for batch in append.split():
            if batch.end_offset <= partition.replica.high_watermark:
                self._answer_reached(partition, batch, self._now())
            else:
                yield batch

    def _answer_reached(self, partition: Partition, append: StagedAppend, now: float) -> None:
        self._meters.synced.observe(now - append.write[2], append.batches)
        self.answer(partition, append, now)
