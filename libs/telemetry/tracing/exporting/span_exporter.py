"""The exporter of a process's spans: a bounded queue, and a daemon thread that empties it into a collector.

The event loop appends to the queue and never waits. A collector that is down, refuses, hangs or is slow fills the queue; then the
oldest spans are dropped and counted.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from libs.telemetry.log_limit import LogLimit
from libs.telemetry.logs import fields
from libs.telemetry.tracing.exporting.collector import Collector, ExportFailed, FinishedSpan, Origin, shown
from libs.telemetry.tracing.exporting.export_meters import NOT_TAKEN, QUEUE_FULL, ExportMeters
from libs.telemetry.tracing.span import Span

log = logging.getLogger("process")

QUEUE_MAX = 2_048
BATCH_MAX = 64
"""The encoder holds the GIL for about 60 µs a span, and the event loop waits for it meanwhile."""
INTERVAL_S = 1.0
CLOSE_S = 1.0
"""The longest that a stop waits for the last spans."""
LOG_EVERY_S = 60.0


class SpanExporter:
    """`connect` makes the collector. It runs in the exporter's thread, since it may import OpenTelemetry, which takes a while."""

    def __init__(
        self, connect: Callable[[], Collector], endpoint: str, *, queue_max: int = QUEUE_MAX, interval_s: float = INTERVAL_S
    ) -> None:
        self._connect = connect
        self._endpoint = shown(endpoint)
        self._queue_max = queue_max
        self._interval_s = interval_s
        self._queue: deque[FinishedSpan] = deque()
        self._collector: Collector | None = None
        self._ending = threading.Event()
        self._gives_up = threading.Event()
        self._failing = False
        self._failures = LogLimit(LOG_EVERY_S)
        self._thread = threading.Thread(target=self._run, name="trace exporter", daemon=True)
        self._ended: asyncio.Event | None = None
        self.meters = ExportMeters(lambda: len(self._queue))

    def start(self) -> None:
        """Call it on the event loop."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._ended = ended

        def tell_end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop did not wait, and is closed
                loop.call_soon_threadsafe(ended.set)

        self._on_end = tell_end
        self._thread.start()

    def offer(self, origin: Origin, spans: Sequence[Span]) -> None:
        queue = self._queue
        queue.extend(FinishedSpan(origin, span) for span in spans)
        while len(queue) > self._queue_max:
            with contextlib.suppress(IndexError):  # the thread was faster
                queue.popleft()
                self.meters.dropped[QUEUE_FULL] += 1

    async def close(self) -> None:
        """Sends what waits, for at most `CLOSE_S`. Then the thread tries nothing again: who embeds this process may live on."""
        if self._ended is None or self._gives_up.is_set():
            return
        self._ending.set()
        try:
            await asyncio.wait_for(self._ended.wait(), CLOSE_S)
        except TimeoutError:
            self._gives_up.set()
            self._close_collector()

    @property
    def is_running(self) -> bool:
        """Whether its thread is."""
        return self._thread.is_alive()

    def _close_collector(self) -> None:
        collector, self._collector = self._collector, None
        if collector is not None:
            collector.close()

    # -- in the thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            collector = self._collector = self._connect()
            is_last = False
            while not is_last:
                is_last = self._ending.wait(self._interval_s)
                while self._queue and not self._gives_up.is_set() and self._send(collector):
                    pass
        except Exception as error:
            log.error("trace exporter failed", exc_info=error)
        finally:
            self._close_collector()
            self._on_end()

    def _send(self, collector: Collector) -> bool:
        """Whether the collector took a batch. If not, the batch is dropped, and the next one waits for its turn."""
        batch = self._take()
        try:
            collector.send(batch)
        except Exception as failure:
            self.meters.dropped[NOT_TAKEN] += len(batch)
            self._failing = True
            if self._failures.count(time.monotonic()):
                dropped = sum(self.meters.dropped.values())
                reason = shown(str(failure) if isinstance(failure, ExportFailed) else repr(failure))
                log.warning(
                    "traces are not exported", extra=fields(endpoint=self._endpoint, reason=reason, spans_dropped=dropped)
                )
            return False
        self.meters.exported += len(batch)
        if self._failing:
            self._failing = False
            log.info("traces are exported again", extra=fields(endpoint=self._endpoint))
        return True

    def _take(self) -> list[FinishedSpan]:
        batch: list[FinishedSpan] = []
        with contextlib.suppress(IndexError):  # a full queue loses its oldest spans meanwhile
            while len(batch) < BATCH_MAX:
                batch.append(self._queue.popleft())
        return batch
