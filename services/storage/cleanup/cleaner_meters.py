"""Metrics of the cleaner, under Kafka's names where Kafka has one (kafka.log: LogCleaner and LogCleanerManager)."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from libs.clock import Clock
from libs.commitlog.cleaner.job import CleanResult
from libs.telemetry.definitions import CounterDefinition, GaugeDefinition
from libs.telemetry.metrics import Metrics

CLEANER = "penstock_storage_cleaner_"

MAX_DIRTY = GaugeDefinition(
    name="kafka_log_logcleanermanager_max_dirty_ratio",
    help="Uncompacted share of the dirtiest compacted log when the cleaner last looked, from 0 to 1.",
    healthy="up to `min.cleanable.dirty.ratio`, 0.5 by default",
    otherwise="The cleaner does not keep up: raise `log.cleaner.threads`, or `log.cleaner.io.max.bytes.per.second` if it is set.",
)
SINCE_LAST_RUN = GaugeDefinition(
    name="kafka_log_logcleanermanager_time_since_last_run_seconds",
    help="Seconds since the cleaner last looked for work.",
    healthy="up to `log.cleaner.backoff.ms`, or as long as a run takes",
    otherwise="Check `log.cleaner.enable` and `log.cleaner.threads`, and look for `cleaning` lines in the log.",
)
RECOPY = GaugeDefinition(
    name="kafka_log_logcleaner_cleaner_recopy_ratio",
    help="Share of the bytes which the last run read that it wrote again.",
    healthy="below 1",
    otherwise="Close to 1: runs remove little. A higher `min.cleanable.dirty.ratio` makes fewer of them.",
)
LONGEST_RUN = GaugeDefinition(
    name="kafka_log_logcleaner_max_clean_time_seconds",
    help="Seconds of the longest run since the start of the process.",
    healthy="minutes at most",
    otherwise="Smaller partitions, a higher rate limit, or a larger `log.cleaner.dedupe.buffer.size` make runs shorter.",
)
COMPACTION_DELAY = GaugeDefinition(
    name="kafka_log_logcleaner_max_compaction_delay_seconds",
    help="Seconds by which a log is past its max.compaction.lag.ms, for the log that is furthest past it.",
    healthy="0",
    otherwise="The cleaner does not keep up: raise `log.cleaner.threads`.",
)
UNCLEANABLE_PARTITIONS = GaugeDefinition(
    name="kafka_log_logcleanermanager_uncleanable_partitions",
    help="Compacted logs that the cleaner skips after a failure, by log directory.",
    labels=("log_directory",),
    healthy="0",
    otherwise="Look for `a log is not cleaned until it is opened again` in the log, and inspect the log it names.",
)
UNCLEANABLE_BYTES = GaugeDefinition(
    name="kafka_log_logcleanermanager_uncleanable_bytes",
    help="Bytes of the compacted logs that the cleaner skips after a failure, by log directory.",
    labels=("log_directory",),
    healthy="0",
    otherwise="As for `kafka_log_logcleanermanager_uncleanable_partitions`. They grow until then.",
)
RUNNING = GaugeDefinition(
    name=CLEANER + "running",
    help="Logs that are being compacted now.",
    healthy="up to `log.cleaner.threads`",
)
RUNS = CounterDefinition(
    name=CLEANER + "runs",
    help="Runs that compacted a log.",
    healthy="follows the load on compacted topics",
)
FAILURES = CounterDefinition(
    name=CLEANER + "failures",
    help="Runs that failed.",
    healthy="0",
    otherwise="Look for `cleaning failed` in the log.",
)
STALLED = CounterDefinition(
    name=CLEANER + "stalled",
    help="Failed runs whose process made no progress and was killed.",
    healthy="0",
    otherwise="The disk hangs, or the machine lacks memory.",
)
DROPPED = CounterDefinition(
    name=CLEANER + "dropped",
    help="Runs whose result was dropped, since the log changed meanwhile.",
    healthy="rare",
    otherwise="The log was truncated or lost segments during runs. Look for `cleaning dropped` in the log.",
)
READ_BYTES = CounterDefinition(
    name=CLEANER + "read_bytes",
    help="Bytes that compaction read.",
    healthy="follows the load on compacted topics",
)
WRITTEN_BYTES = CounterDefinition(
    name=CLEANER + "written_bytes",
    help="Bytes that compaction wrote.",
    healthy="below the bytes that it read",
)
READ_RECORDS = CounterDefinition(
    name=CLEANER + "read_records",
    help="Records that compaction read.",
    healthy="follows the load on compacted topics",
)
KEPT_RECORDS = CounterDefinition(
    name=CLEANER + "kept_records",
    help="Records that compaction kept.",
    healthy="below the records that it read",
)
UNOPENED = GaugeDefinition(
    name=CLEANER + "unopened_batches",
    help="Batches of compacted logs that hold more than 128 MiB when decompressed, or bytes that are no records. They stay as "
    "they are, and tombstones behind them stay, too.",
    healthy="0",
    otherwise="Look for `batches cannot be opened for compaction` in the log. `kafka-delete-records` removes them.",
)
SECONDS = CounterDefinition(
    name=CLEANER + "seconds",
    help="Seconds that runs of compaction took.",
    healthy="its rate stays below `log.cleaner.threads`",
    otherwise="At that rate the cleaner never rests: raise `log.cleaner.threads`.",
)


class CleanerMeters:
    """A collector in the service's registry."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self.last_look_ms = clock.wall_ms() + 0
        self.max_dirty_ratio = 0.0
        self.overdue_ms_max = 0
        self.uncleanable: dict[str, tuple[int, int]] = {}
        """By log directory, the partitions and their bytes."""
        self.running = 0
        self.cleaned = 0
        self.failed = 0
        self.stalled = 0
        self.dropped = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.unopened: dict[str, int] = {}
        """By partition, the batches that its last run could not open."""
        self.seconds = 0.0
        self._longest_s = 0.0
        self._last: CleanResult | None = None
        metrics.registry.register(self)

    def finished(self, partition: str, result: CleanResult) -> None:
        self.cleaned += 1
        if result.unopened:
            self.unopened[partition] = result.unopened
        else:
            self.unopened.pop(partition, None)
        self.bytes_read += result.bytes_read
        self.bytes_written += result.bytes_written
        self.records_read += result.records_read
        self.records_kept += result.records_kept
        self.seconds += result.seconds
        self._longest_s = max(self._longest_s, result.seconds)
        self._last = result

    def keep_unopened(self, partitions: set[str]) -> None:
        """Forgets the batches of partitions that are no longer here."""
        self.unopened = {name: count for name, count in self.unopened.items() if name in partitions}

    def collect(self) -> Iterator[Metric]:
        last, recopied = self._last, 0.0
        if last is not None and last.bytes_read:
            recopied = last.bytes_written / last.bytes_read
        since_ms = self._clock.wall_ms() - self.last_look_ms
        yield MAX_DIRTY.sample(self.max_dirty_ratio)
        yield SINCE_LAST_RUN.sample(max(since_ms, 0) / 1000)
        yield RECOPY.sample(recopied)
        yield LONGEST_RUN.sample(self._longest_s)
        yield COMPACTION_DELAY.sample(self.overdue_ms_max / 1000)
        yield UNCLEANABLE_PARTITIONS.samples(((path,), partitions) for path, (partitions, _) in self.uncleanable.items())
        yield UNCLEANABLE_BYTES.samples(((path,), size) for path, (_, size) in self.uncleanable.items())
        yield RUNNING.sample(self.running)
        yield RUNS.sample(self.cleaned)
        yield FAILURES.sample(self.failed)
        yield STALLED.sample(self.stalled)
        yield DROPPED.sample(self.dropped)
        yield READ_BYTES.sample(self.bytes_read)
        yield WRITTEN_BYTES.sample(self.bytes_written)
        yield READ_RECORDS.sample(self.records_read)
        yield KEPT_RECORDS.sample(self.records_kept)
        yield UNOPENED.sample(sum(self.unopened.values()))
        yield SECONDS.sample(self.seconds)
