"""Metrics of the cleaner, under Kafka's names where Kafka has one (kafka.log: LogCleaner and LogCleanerManager)."""

from libs.clock import Clock
from libs.commitlog.cleaner.job import CleanResult
from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, MetricSet, Rows
from libs.telemetry.metrics import Metrics

CLEANER = "penstock_storage_cleaner_"


class CleanerMeters(MetricSet):
    """A collector in the service's registry."""

    max_dirty_ratio: float = GaugeDefinition(
        name="kafka_log_logcleanermanager_max_dirty_ratio",
        help="Uncompacted share of the dirtiest compacted log when the cleaner last looked, from 0 to 1.",
        healthy="up to `min.cleanable.dirty.ratio`, 0.5 by default",
        otherwise="The cleaner does not keep up: raise `log.cleaner.threads`, or `log.cleaner.io.max.bytes.per.second` if it "
        "is set.",
    ).kept(float)
    running: int = GaugeDefinition(
        name=CLEANER + "running",
        help="Logs that are being compacted now.",
        healthy="up to `log.cleaner.threads`",
    ).kept()
    cleaned: int = CounterDefinition(
        name=CLEANER + "runs",
        help="Runs that compacted a log.",
        healthy="follows the load on compacted topics",
    ).kept()
    failed: int = CounterDefinition(
        name=CLEANER + "failures",
        help="Runs that failed.",
        healthy="0",
        otherwise="Look for `cleaning failed` in the log.",
    ).kept()
    stalled: int = CounterDefinition(
        name=CLEANER + "stalled",
        help="Failed runs whose process made no progress and was killed.",
        healthy="0",
        otherwise="The disk hangs, or the machine lacks memory.",
    ).kept()
    dropped: int = CounterDefinition(
        name=CLEANER + "dropped",
        help="Runs whose result was dropped, since the log changed meanwhile.",
        healthy="rare",
        otherwise="The log was truncated or lost segments during runs. Look for `cleaning dropped` in the log.",
    ).kept()
    bytes_read: int = CounterDefinition(
        name=CLEANER + "read_bytes",
        help="Bytes that compaction read.",
        healthy="follows the load on compacted topics",
    ).kept()
    bytes_written: int = CounterDefinition(
        name=CLEANER + "written_bytes",
        help="Bytes that compaction wrote.",
        healthy="below the bytes that it read",
    ).kept()
    records_read: int = CounterDefinition(
        name=CLEANER + "read_records",
        help="Records that compaction read.",
        healthy="follows the load on compacted topics",
    ).kept()
    records_kept: int = CounterDefinition(
        name=CLEANER + "kept_records",
        help="Records that compaction kept.",
        healthy="below the records that it read",
    ).kept()
    seconds: float = CounterDefinition(
        name=CLEANER + "seconds",
        help="Seconds that runs of compaction took.",
        healthy="its rate stays below `log.cleaner.threads`",
        otherwise="At that rate the cleaner never rests: raise `log.cleaner.threads`.",
    ).kept(float)
    longest_s: float = GaugeDefinition(
        name="kafka_log_logcleaner_max_clean_time_seconds",
        help="Seconds of the longest run since the start of the process.",
        healthy="minutes at most",
        otherwise="Smaller partitions, a higher rate limit, or a larger `log.cleaner.dedupe.buffer.size` make runs shorter.",
    ).kept(float)

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.last_look_ms = clock.wall_ms() + 0
        self.overdue_ms_max = 0
        self.uncleanable: dict[str, tuple[int, int]] = {}
        """By log directory, the partitions and their bytes."""
        self.unopened: dict[str, int] = {}
        """By partition, the batches that its last run could not open."""
        self._last: CleanResult | None = None
        metrics.registry.register(self)

    @GaugeDefinition(
        name="kafka_log_logcleanermanager_time_since_last_run_seconds",
        help="Seconds since the cleaner last looked for work.",
        healthy="up to `log.cleaner.backoff.ms`, or as long as a run takes",
        otherwise="Check `log.cleaner.enable` and `log.cleaner.threads`, and look for `cleaning` lines in the log.",
    )
    def since_last_run_s(self) -> float:
        return max(self._clock.wall_ms() - self.last_look_ms, 0) / 1000

    @GaugeDefinition(
        name="kafka_log_logcleaner_cleaner_recopy_ratio",
        help="Share of the bytes which the last run read that it wrote again.",
        healthy="below 1",
        otherwise="Close to 1: runs remove little. A higher `min.cleanable.dirty.ratio` makes fewer of them.",
    )
    def recopied(self) -> float:
        last = self._last
        return last.bytes_written / last.bytes_read if last is not None and last.bytes_read else 0.0

    @GaugeDefinition(
        name="kafka_log_logcleaner_io_ratio",
        help="Share of the last run's time in which it moved bytes, and did not wait for `log.cleaner.io.max.bytes.per.second`.",
        healthy="above 0.3; 1 without that limit",
        otherwise="The limit keeps the cleaner from its work: raise it as far as the disk allows.",
    )
    def io_ratio(self) -> float:
        last = self._last
        return 1 - last.waited_seconds / last.seconds if last is not None and last.seconds else 1.0

    @GaugeDefinition(
        name="kafka_log_logcleaner_max_compaction_delay_seconds",
        help="Seconds by which a log is past its max.compaction.lag.ms, for the log that is furthest past it.",
        healthy="0",
        otherwise="The cleaner does not keep up: raise `log.cleaner.threads`.",
    )
    def overdue_s_max(self) -> float:
        return self.overdue_ms_max / 1000

    @GaugeDefinition(
        name="kafka_log_logcleanermanager_uncleanable_partitions",
        help="Compacted logs that the cleaner skips after a failure, by log directory.",
        labels=("log_directory",),
        healthy="0",
        otherwise="Look for `a log is not cleaned until it is opened again` in the log, and inspect the log it names.",
    )
    def uncleanable_partitions(self) -> Rows:
        return [((path,), partitions) for path, (partitions, _) in self.uncleanable.items()]

    @GaugeDefinition(
        name="kafka_log_logcleanermanager_uncleanable_bytes",
        help="Bytes of the compacted logs that the cleaner skips after a failure, by log directory.",
        labels=("log_directory",),
        healthy="0",
        otherwise="As for `kafka_log_logcleanermanager_uncleanable_partitions`. They grow until then.",
    )
    def uncleanable_bytes(self) -> Rows:
        return [((path,), size) for path, (_, size) in self.uncleanable.items()]

    @GaugeDefinition(
        name=CLEANER + "unopened_batches",
        help="Batches of compacted logs that hold more than 128 MiB when decompressed, or bytes that are no records. They stay "
        "as they are, and tombstones behind them stay, too.",
        healthy="0",
        otherwise="Look for `batches cannot be opened for compaction` in the log. `kafka-delete-records` removes them.",
    )
    def unopened_batches(self) -> int:
        return sum(self.unopened.values())

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
        self.longest_s = max(self.longest_s, result.seconds)
        self._last = result

    def keep_unopened(self, partitions: set[str]) -> None:
        """Forgets the batches of partitions that are no longer here."""
        self.unopened = {name: count for name, count in self.unopened.items() if name in partitions}
