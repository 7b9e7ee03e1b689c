"""Jobs that run: what they are given, and how they are waited for."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.job import LakeSettings
from services.pipeline.jobs.failures import failure_of
from services.pipeline.observing.progress import StreamObserver, has_read
from services.pipeline.observing.settings import TelemetrySettings
from services.pipeline.observing.telemetry import Telemetry, start_telemetry
from services.pipeline.spark.cluster import ClusterSettings

POLL_S = 0.2
_CONCURRENT = "ConcurrentModification"
"""In the class of what Spark raises when two drivers write down the id of one query."""


@dataclass(frozen=True)
class Environment:
    """What every job of a file is given."""

    spark: SparkSession
    cluster: ClusterSettings
    lake: LakeSettings
    telemetry: Telemetry = field(default_factory=lambda: start_telemetry(TelemetrySettings()))


class Running(Protocol):
    """A job that was started."""

    ends: bool
    """Whether it ends by itself: then the next job of the file waits for it."""

    def wait(self) -> None:
        """Returns when the job has ended. Raises PipelineError if it failed."""

    def stop(self) -> None:
        """Ends the job. What it has committed stays; it goes on from there when it is run again."""


class RunningStream:
    """A job that is one streaming query. Its observer, if it has one, ends with it; then `at_end` is called, perhaps twice."""

    def __init__(
        self,
        name: str,
        query: StreamingQuery,
        *,
        ends: bool,
        observer: StreamObserver | None = None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.ends = ends
        self._name = name
        self._query = query
        self._observer = observer
        self._at_end = at_end
        self._ending = threading.Lock()

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def wait(self) -> None:
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            raise failure_of(self._name, error) from error
        finally:
            self._end()

    def stop(self) -> None:
        self._query.stop()
        self._end()

    def _end(self) -> None:
        """One thread may wait for the query while another one stops it."""
        with self._ending:
            self._end_observer()
            self._at_end()

    def _end_observer(self) -> None:
        """The last progress of a query that read nothing has no batch of its own to wait for."""
        if self._observer is None:
            return
        last = self._query.lastProgress
        if last is not None and has_read(last) and self._query.exception() is None:
            self._observer.drain(last.batchId)
        self._observer.close()


def start_query(writer: DataStreamWriter, job: str) -> StreamingQuery:
    """Raises PipelineError if another driver starts the job with the same new checkpoint in the same moment."""
    try:
        return writer.start()
    except Py4JJavaError as error:
        if _CONCURRENT in error.java_exception.getClass().getName():
            raise PipelineError(
                f"jobs.{job}: another process has started the job with this checkpoint; let one run at a time"
            ) from error
        raise


def wait_for_all(streams: Sequence[RunningStream]) -> None:
    """Returns when all have ended. Raises PipelineError when one has failed, though others go on.

    Sessions have query managers of their own, so Spark's `awaitAnyTermination` would see the queries of one session only.
    """
    active = list(streams)
    while active:
        for ended in [each for each in active if not each.is_active]:
            active.remove(ended)
            ended.wait()
        time.sleep(POLL_S)
