"""What the cleaner counts, under Kafka's names where Kafka has one (kafka.log: LogCleaner and LogCleanerManager)."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from libs.clock import Clock
from libs.commitlog.cleaner.job import CleanResult
from libs.telemetry.metrics import Metrics


class CleanerMeters:
    """A collector in the service's registry."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self.last_look_ms = clock.wall_ms() + 0
        self.max_dirty_ratio = 0.0
        self.overdue_ms_max = 0
        self.uncleanable: dict[str, tuple[int, int]] = {}
        """By log directory: partitions, and their bytes."""
        self.running = 0
        self.cleaned = 0
        self.failed = 0
        self.stalled = 0
        self.dropped = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.seconds = 0.0
        self._longest_s = 0.0
        self._last: CleanResult | None = None
        metrics.registry.register(self)

    def finished(self, result: CleanResult) -> None:
        self.cleaned += 1
        self.bytes_read += result.bytes_read
        self.bytes_written += result.bytes_written
        self.records_read += result.records_read
        self.records_kept += result.records_kept
        self.seconds += result.seconds
        self._longest_s = max(self._longest_s, result.seconds)
        self._last = result

    def collect(self) -> Iterator[Metric]:
        last, recopied = self._last, 0.0
        if last is not None and last.bytes_read:
            recopied = 100 * last.bytes_written / last.bytes_read
        since_ms = self._clock.wall_ms() - self.last_look_ms
        for name, text, value in (
            ("manager_max_dirty_percent", "The dirtiest compacted log, as of the last look.", 100 * self.max_dirty_ratio),
            ("manager_time_since_last_run_ms", "Since the cleaner last looked for work.", max(since_ms, 0)),
            ("_cleaner_recopy_percent", "Of what the last run read, how much it wrote again.", recopied),
            ("_max_clean_time_secs", "The longest run.", self._longest_s),
            ("_max_compaction_delay_secs", "By how much max.compaction.lag.ms is passed at most.", self.overdue_ms_max / 1000),
        ):
            yield GaugeMetricFamily(f"kafka_log_logcleaner{name}", text, value=value)
        uncleanable = GaugeMetricFamily(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Compacted logs that are left alone after a failure.",
            labels=["logDirectory"],
        )
        their_bytes = GaugeMetricFamily(
            "kafka_log_logcleanermanager_uncleanable_bytes", "Bytes in those.", labels=["logDirectory"]
        )
        for path, (partitions, size) in self.uncleanable.items():
            uncleanable.add_metric([path], partitions)
            their_bytes.add_metric([path], size)
        yield uncleanable
        yield their_bytes
        yield GaugeMetricFamily("penstock_storage_cleaner_running", "Logs that are being compacted.", value=self.running)
        for name, text, count in (
            ("runs", "Logs that were compacted.", self.cleaned),
            ("failures", "Runs that failed.", self.failed),
            ("stalled", "Of those, runs whose process hung and was killed.", self.stalled),
            ("dropped", "Runs of which nothing came, since the log changed meanwhile.", self.dropped),
            ("read_bytes", "Bytes that compaction read.", self.bytes_read),
            ("written_bytes", "Bytes that compaction wrote.", self.bytes_written),
            ("read_records", "Records that compaction read.", self.records_read),
            ("kept_records", "Records that compaction kept.", self.records_kept),
            ("seconds", "Time that compaction took.", self.seconds),
        ):
            yield CounterMetricFamily(f"penstock_storage_cleaner_{name}", text, value=count)
