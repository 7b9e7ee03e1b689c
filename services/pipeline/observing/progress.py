"""The observer of one streaming query: after each finished micro-batch, its offsets go to the group, then metrics and a span."""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from services.pipeline.errors import PipelineError
from services.pipeline.observing.group import StreamGroup
from services.pipeline.observing.lag import Position, behind, lags
from services.pipeline.observing.pipeline_meters import StreamMeters
from services.pipeline.observing.spans import BatchSpans
from services.pipeline.transforms.trace_contexts import CONTEXTS_MAX, counts, sampled_contexts

REFRESH_S = 5.0
DRAIN_S = 10.0
_log = logging.getLogger(__name__)


@dataclass
class _Batch:
    counted: Observation | None = None
    dead_letters: int = 0


class StreamObserver(StreamingQueryListener):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """Made by `observe`. Spark calls it in a thread of its own; the lag is asked for in another."""

    def __init__(
        self, spark: SparkSession, query_name: str, group: StreamGroup | None, meters: StreamMeters, spans: BatchSpans | None
    ) -> None:
        self._spark = spark
        self._query_name = query_name
        self._group = group
        self._meters = meters
        self._spans = spans
        self._batches: dict[int, _Batch] = {}
        self._reached: dict[Position, int] = {}
        self._finished = -1
        self._progressed = threading.Condition()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._refresh_often, name=f"lag of {query_name}", daemon=True)
        self._thread.start()

    def counted(self, records: DataFrame, batch: int) -> DataFrame:
        """`records` of that micro-batch, which count themselves when they are first read. Needs key, value and headers."""
        observation = Observation()
        self._batches.setdefault(batch, _Batch()).counted = observation
        return records.observe(observation, *counts(), *(sampled_contexts() if self._spans else []))

    def left_out(self, batch: int) -> None:
        """The table has the batch from before a restart, and nobody reads its records: their count would never come."""
        self._batches.pop(batch, None)

    def add_dead_letters(self, count: int, batch: int) -> None:
        self._batches.setdefault(batch, _Batch()).dead_letters += count

    def started_from(self, ends: Mapping[Position, int], batch: int) -> None:
        """What the checkpoint says. A driver that died after its last batch did not commit that to the group."""
        self._commit(ends, batch)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to do: nothing is finished yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if progress.name == self._query_name and progress.batchId > self._finished and has_read(progress):
            batch = self._batches.pop(progress.batchId, _Batch())
            for older in [number for number in self._batches if number < progress.batchId]:
                del self._batches[older]
            ends = end_offsets(source.endOffset for source in progress.sources)
            self._commit(ends, progress.batchId)
            self._count(progress, batch, ends)
            with self._progressed:
                self._finished = progress.batchId
                self._progressed.notify_all()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to do: the lag is asked for anyway."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to do: `close` ends the observer."""

    def refresh(self) -> None:
        """Asks for the lag, if there is a group. Raises PipelineError."""
        if self._group is None:
            return
        with self._lock:
            reached = self._group.with_new_partitions(self._reached)
            ends = self._group.log_ends(reached)
            self._meters.lags = lags(reached, ends, self._group.timestamps(behind(reached, ends)))

    def drain(self, batch: int) -> None:
        """Waits until that batch has been told: Spark's listeners hear of it after the query has ended."""
        with self._progressed:
            self._progressed.wait_for(lambda: self._finished >= batch, DRAIN_S)

    def close(self) -> None:
        """Spark tells it nothing more. A second call does nothing."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._spark.streams.removeListener(self)
        self._thread.join()
        with self._lock:
            if self._group is not None:
                self._group.close()

    def _commit(self, ends: Mapping[Position, int], batch: int) -> None:
        with self._lock:
            if self._group is None or self._stopped.is_set():
                return
            self._reached.update(ends)
            try:
                self._group.commit(ends, batch)
            except PipelineError as error:
                self._meters.commit_failures += 1
                _log.warning("batch %d: %s", batch, error)

    def _count(self, progress: Any, batch: _Batch, ends: Mapping[Position, int]) -> None:
        found = _result(batch.counted)
        rows = found.get("rows", progress.numInputRows)
        self._meters.rows += rows
        self._meters.bytes += found.get("bytes", 0)
        self._meters.dead_letters += batch.dead_letters
        duration_ms = progress.durationMs.get("triggerExecution", progress.batchDuration)
        self._meters.batches.observe(duration_ms / 1000)
        if self._spans is not None:
            start_ns = int(datetime.fromisoformat(progress.timestamp).timestamp() * 1e9)
            contexts = [found[f"context_{number}"] for number in range(CONTEXTS_MAX) if found.get(f"context_{number}")]
            attributes = {
                "penstock.job": self._meters.job,
                "penstock.batch": progress.batchId,
                "penstock.rows": rows,
                "penstock.end_offsets": json.dumps({f"{topic}-{partition}": end for (topic, partition), end in ends.items()}),
            }
            self._spans.record(self._meters.job, start_ns, start_ns + int(duration_ms * 1e6), contexts, attributes)

    def _refresh_often(self) -> None:
        while not self._stopped.wait(REFRESH_S):
            try:
                self.refresh()
            except PipelineError as error:
                _log.warning("%s", error)


def observe(
    spark: SparkSession, query_name: str, group: StreamGroup | None, meters: StreamMeters, spans: BatchSpans | None = None
) -> StreamObserver:
    """Observes the session's query of that name, which may start later. `close` the observer when the query has ended."""
    observer = StreamObserver(spark, query_name, group, meters, spans)
    spark.streams.addListener(observer)
    return observer


def has_read(progress: Any) -> bool:
    """Whether the batch has come further. One of aborted records or markers has no rows, and other offsets at its end."""
    return progress.numInputRows > 0 or any(source.startOffset != source.endOffset for source in progress.sources)


def end_offsets(sources: Iterable[str | None]) -> dict[Position, int]:
    """Of sources that are Kafka's; the offsets of others have another form."""
    ends: dict[Position, int] = {}
    for source in sources:
        found = json.loads(source) if source else None
        for topic, partitions in found.items() if isinstance(found, dict) else ():
            if isinstance(partitions, dict):
                ends.update({(topic, int(partition)): offset for partition, offset in partitions.items()})
    return ends


def _result(observation: Observation | None) -> dict[str, Any]:
    """What the records counted; empty if they were not observed."""
    if observation is None:
        return {}
    try:
        return dict(observation.get)
    except PySparkException:
        return {}
