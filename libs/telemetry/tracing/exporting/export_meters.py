"""What becomes of the spans that a process exports, as metrics."""

from collections.abc import Callable

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, MetricSet

QUEUE_FULL, NOT_TAKEN = "queue_full", "not_taken"


class ExportMeters(MetricSet):
    """The event loop's thread counts under `QUEUE_FULL`, and the exporter's thread everything else."""

    exported: int = CounterDefinition(
        name="penstock_trace_spans_exported",
        help="Spans that the collector of traces has taken.",
        healthy="any",
    ).kept()
    dropped: dict[str, int] = CounterDefinition(
        name="penstock_trace_spans_dropped",
        help="Spans that the collector did not get: the queue was full, or the collector did not take them.",
        labels=("reason",),
        healthy="0",
        otherwise="look at the log event *traces are not exported*, and at the collector; the cluster itself suffers nothing",
    ).kept(lambda: {QUEUE_FULL: 0, NOT_TAKEN: 0})

    def __init__(self, waiting: Callable[[], int]) -> None:
        super().__init__()
        self._waiting = waiting

    @GaugeDefinition(
        name="penstock_trace_spans_waiting",
        help="Spans in the queue of the exporter. It holds 2,048.",
        healthy="below 2,048",
        otherwise="the collector is away or slow: the oldest spans are dropped",
    )
    def spans_waiting(self) -> int:
        return self._waiting()
