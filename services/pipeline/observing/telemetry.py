"""What a driver tells others of all its streams: it builds the observer of each, and what they share."""

import logging
from dataclasses import dataclass

from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.observing.group import StreamGroup
from services.pipeline.observing.pipeline_meters import PipelineMeters
from services.pipeline.observing.progress import StreamObserver, observe
from services.pipeline.observing.serving import MetricsServer
from services.pipeline.observing.settings import TelemetrySettings
from services.pipeline.observing.spans import BatchSpans, otlp_spans
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import ClusterSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Telemetry:
    """Of one driver. `close` it when its streams have ended."""

    meters: PipelineMeters
    server: MetricsServer | None
    spans: BatchSpans | None

    def observe(
        self, spark: SparkSession, cluster: ClusterSettings, job: str, group: str, checkpoint: Checkpoint
    ) -> StreamObserver:
        """The observer of the job's query, which has the job's name and is not started yet. A job goes on without a group."""
        observer = observe(spark, job, _group_if_possible(cluster, job, group, checkpoint.path), self.meters.of(job), self.spans)
        batch, ends = checkpoint.finished()
        if ends:
            observer.started_from(ends, batch)
        return observer

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        if self.spans is not None:
            self.spans.close()


def _group_if_possible(cluster: ClusterSettings, job: str, group: str, checkpoint: str) -> StreamGroup | None:
    """None, with a warning, if librdkafka cannot be set up for the cluster, say by options of SASL, which it names otherwise."""
    try:
        return StreamGroup(cluster, group, checkpoint)
    except PipelineError as error:
        _log.warning("%s: its lag is not shown: %s", job, error)
        return None


def start_telemetry(settings: TelemetrySettings) -> Telemetry:
    """Raises PipelineError if the port of the metrics is taken."""
    meters = PipelineMeters()
    server = None if settings.metrics_port is None else MetricsServer(meters, settings.metrics_host, settings.metrics_port)
    return Telemetry(meters, server, None if settings.otlp_endpoint is None else otlp_spans(settings.otlp_endpoint))
