"""Metrics of the streams of one driver."""

import time
from collections.abc import Iterator, Sequence

from libs.telemetry.definitions import (
    CounterDefinition,
    Family,
    FamilySource,
    GaugeDefinition,
    HistogramDefinition,
    MetricSet,
    Rows,
)
from libs.telemetry.durations import BATCH_BUCKETS, Durations
from services.pipeline.observing.lag import Lag


class StreamMeters:
    """The counts of one stream. Written by the thread of the listener, read by scrapes."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.rows = self.bytes = self.dead_letters = self.commit_failures = 0
        self.batches = Durations(BATCH_BUCKETS)
        self.lags: dict[str, Lag] = {}
        """By topic."""


class PipelineGauges(MetricSet):
    """The streams of a driver at a scrape, for which it is made."""

    def __init__(self, streams: Sequence[StreamMeters]) -> None:
        super().__init__()
        self._streams = streams
        self._lags = [((each.job, topic), lag) for each in streams for topic, lag in list(each.lags.items())]

    @CounterDefinition(
        name="penstock_pipeline_rows",
        help="Records that finished micro-batches read.",
        labels=("job",),
        healthy="its rate follows the topics'",
        otherwise="if it is 0 while the lag grows, look into the driver's log",
    )
    def rows(self) -> Rows:
        return [((each.job,), each.rows) for each in self._streams]

    @CounterDefinition(
        name="penstock_pipeline_bytes",
        help="Bytes of keys and values that finished micro-batches read.",
        labels=("job",),
        healthy="its rate follows the topics'",
    )
    def bytes(self) -> Rows:
        return [((each.job,), each.bytes) for each in self._streams]

    @CounterDefinition(
        name="penstock_pipeline_dead_letters",
        help="Records that went to a dead-letter table.",
        labels=("job",),
        healthy="0",
        otherwise="the dead-letter table has each with its reason and offset",
    )
    def dead_letters(self) -> Rows:
        return [((each.job,), each.dead_letters) for each in self._streams]

    @CounterDefinition(
        name="penstock_pipeline_group_commit_failures",
        help="Finished micro-batches whose offsets the job's group did not take. The stream itself goes on by its checkpoint.",
        labels=("job",),
        healthy="0",
        otherwise="the log names the reason; a consumer that joined the group is one",
    )
    def commit_failures(self) -> Rows:
        return [((each.job,), each.commit_failures) for each in self._streams]

    @HistogramDefinition(
        name="penstock_pipeline_batch_seconds",
        help="Duration of finished micro-batches.",
        labels=("job",),
        healthy="below the trigger's interval",
        otherwise="more executor cores, or a smaller `max_offsets_per_trigger`",
    )
    def batches(self) -> Rows:
        return [((each.job,), each.batches) for each in self._streams]

    @GaugeDefinition(
        name="penstock_pipeline_lag_offsets",
        help="Offsets of the topic between the finished micro-batches and the log's end.",
        labels=("job", "topic"),
        healthy="falls again after each batch",
    )
    def lags(self) -> Rows:
        return [(labels, lag.offsets) for labels, lag in self._lags]

    @GaugeDefinition(
        name="penstock_pipeline_freshness_seconds",
        help="Age of the oldest record of the topic that no finished micro-batch has read; 0 if there is none.",
        labels=("job", "topic"),
        healthy="below a few intervals of the trigger",
        otherwise="the stream stands still or is too slow: compare the rates of rows and of the topic",
    )
    def freshness(self) -> Rows:
        now_ms = time.time() * 1000
        return [(labels, lag.freshness_s(now_ms)) for labels, lag in self._lags]


class PipelineMeters(FamilySource):
    """Register it with the driver's registry."""

    def __init__(self) -> None:
        self._streams: dict[str, StreamMeters] = {}

    def of(self, job: str) -> StreamMeters:
        if job not in self._streams:
            self._streams[job] = StreamMeters(job)
        return self._streams[job]

    def families(self) -> Iterator[Family | None]:
        return PipelineGauges(list(self._streams.values())).families()
