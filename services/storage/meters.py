"""What a storage node counts. Plain numbers on the hot path, turned into Prometheus samples when somebody scrapes.

Kafka's own names where Kafka has one: its JMX names, in the form that its usual Prometheus exporters give them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from libs.telemetry.durations import Durations
from libs.telemetry.metrics import Metrics
from libs.telemetry.stages import Stage, StageDurations

if TYPE_CHECKING:
    from services.storage.partitions import Partitions


class Meters:
    """A collector in the service's registry. An append's stages are received → appended → synced. All that arrived in one
    read is received and appended at the same moment, so the clock is read once for all of it."""

    def __init__(self, metrics: Metrics, partitions: "Partitions") -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0
        self.messages_in = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.expired_produces = 0
        self.duplicates = 0
        self.rounds_failed = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.stalled: set[str] = set()
        self.offline: set[str] = set()
        self._append_stages = StageDurations(Stage.APPENDED, Stage.SYNCED)
        self.appended = self._append_stages.of(Stage.APPENDED)
        self.synced = self._append_stages.of(Stage.SYNCED)
        self.opening = Durations()
        self.flush_time = Durations()
        self._partitions = partitions
        metrics.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        topics = "kafka_server_brokertopicmetrics_"
        for name, text, value in (
            ("bytesin", "Bytes of record batches appended.", self.bytes_in),
            ("bytesout", "Bytes of record batches answered to fetches.", self.bytes_out),
            ("replicationbytesout", "Bytes of record batches given to followers.", self.replication_bytes_out),
            ("messagesin", "Records appended.", self.messages_in),
            ("totalproducerequests", "Partitions in append calls.", self.produce_requests),
            ("totalfetchrequests", "Partitions in answered fetch calls.", self.fetch_requests),
            ("failedproducerequests", "Partitions in append calls answered with an error.", self.failed_produces),
            ("failedfetchrequests", "Partitions in fetch calls answered with an error.", self.failed_fetches),
        ):
            yield CounterMetricFamily(topics + name, text, value=value)
        yield CounterMetricFamily(
            "kafka_server_delayedoperationpurgatory_expired_produces", "acks=all that timed out.", value=self.expired_produces
        )
        replicas = "kafka_server_replicamanager_"
        yield CounterMetricFamily(replicas + "isrshrinks", "ISRs that a follower left.", value=self.isr_shrinks)
        yield CounterMetricFamily(replicas + "isrexpands", "ISRs that a follower joined.", value=self.isr_expands)
        yield CounterMetricFamily("penstock_storage_duplicates", "Batches that were in the log already.", value=self.duplicates)
        stages = HistogramMetricFamily(
            "penstock_storage_append_stage_seconds",
            "Per batch: from received to written, and with acks=all from there until committed.",
            labels=["stage"],
        )
        self._append_stages.add_to(stages)
        yield stages
        yield self.opening.family(
            "penstock_storage_opening_seconds", "Batches whose records were looked at: from received until they went on."
        )
        yield self.flush_time.family("kafka_log_logflushstats_logflushrateandtimes_seconds", "Sync rounds.")
        hosted = self._partitions.by_key.values()
        led = [one.replica for one in hosted if one.leading]
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_partitioncount", "Partitions hosted.", value=len(self._partitions.by_key)
        )
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_leadercount", "Partitions led.", value=sum(one.leading for one in hosted)
        )
        for name, text, value in (
            ("underreplicatedpartitions", "Partitions led that have replicas out of sync.", sum(r.missing > 0 for r in led)),
            ("underminisrpartitioncount", "Led with too few in sync.", sum(r.in_sync < r.min_in_sync for r in led)),
            ("atminisrpartitioncount", "Led with just enough in sync.", sum(r.in_sync == r.min_in_sync for r in led)),
        ):
            yield GaugeMetricFamily(replicas + name, text, value=value)
        yield GaugeMetricFamily("kafka_log_log_size", "Bytes in all logs.", value=sum(one.log.size for one in hosted))
        yield GaugeMetricFamily(
            "kafka_log_logmanager_offlinelogdirectorycount", "Retired log directories.", value=len(self.offline)
        )
        yield GaugeMetricFamily(
            "penstock_storage_stalled_directories", "Log directories whose sync round hangs.", value=len(self.stalled)
        )
