"""Storage nodes: appends, syncs, disks, compaction."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Query, Row, lines, quantiles, rates

CLEANER: Final = "penstock_storage_cleaner"
DIRECTORY: Final = "penstock_storage_log_directory"

STORAGE: Final = Dashboard(
    name="storage",
    title="storage nodes",
    purpose="Are the disks fast enough and large enough, and does compaction keep up?",
    variables=("instance",),
    rows=(
        Row(
            "Appends",
            (
                rates("Bytes in", "kafka_server_brokertopicmetrics_bytesin_total", "instance", unit="Bps"),
                quantiles("Stages of a batch", "penstock_storage_append_stage_seconds", by="stage"),
                quantiles("Sync rounds", "kafka_log_logflushstats_logflushrateandtimes_seconds", by="instance", high=0.02),
                rates("Sync rounds a second", "kafka_log_logflushstats_logflushrateandtimes_seconds_count", "instance"),
                rates("Appends asked for", "kafka_server_brokertopicmetrics_totalproducerequests_total", "instance"),
                rates("Fetches asked for", "kafka_server_brokertopicmetrics_totalfetchrequests_total", "instance"),
                quantiles("Batches whose records are opened", "penstock_storage_opening_seconds", high=0.1),
                rates("Repeated batches", "penstock_storage_duplicates_total", "instance"),
                lines(
                    "Producers remembered", Query("kafka_server_replicamanager_produceridcount", "{{instance}}"), high=1_000_000
                ),
            ),
        ),
        Row(
            "Disks",
            (
                lines(
                    "Free share of the volume",
                    Query(f"{DIRECTORY}_free_bytes / {DIRECTORY}_size_bytes", "{{instance}} {{log_directory}}"),
                    unit="percentunit",
                ),
                lines(
                    "Used, and by logs",
                    Query(f"{DIRECTORY}_used_bytes", "used {{instance}} {{log_directory}}"),
                    Query(f"{DIRECTORY}_logs_bytes", "logs {{instance}} {{log_directory}}"),
                    unit="bytes",
                ),
                lines(
                    "Offline, full or hanging",
                    Query("kafka_log_logmanager_logdirectoryoffline", "offline {{instance}} {{log_directory}}"),
                    Query(f"{DIRECTORY}_full", "full {{instance}} {{log_directory}}"),
                    Query("penstock_storage_stalled_directories", "hanging {{instance}}"),
                    high=1,
                ),
            ),
        ),
        Row(
            "Compaction",
            (
                lines(
                    "Dirtiest log",
                    Query("kafka_log_logcleanermanager_max_dirty_ratio", "{{instance}}"),
                    unit="percentunit",
                ),
                rates("Time at work", f"{CLEANER}_seconds_total", "instance", unit="percentunit"),
                lines(
                    "Bytes read and written",
                    Query(f"sum(rate({CLEANER}_read_bytes_total[{RATE}]))", "read"),
                    Query(f"sum(rate({CLEANER}_written_bytes_total[{RATE}]))", "written"),
                    unit="Bps",
                ),
                lines(
                    "Logs that the cleaner skips",
                    Query("kafka_log_logcleanermanager_uncleanable_partitions", "{{instance}} {{log_directory}}"),
                    high=1,
                ),
                lines(
                    "Past max.compaction.lag.ms",
                    Query("kafka_log_logcleaner_max_compaction_delay_seconds", "{{instance}}"),
                    unit="s",
                    high=3600,
                ),
                lines(
                    "Runs that failed, hung or were dropped",
                    Query(f"sum(rate({CLEANER}_failures_total[{RATE}]))", "failed"),
                    Query(f"sum(rate({CLEANER}_stalled_total[{RATE}]))", "hung"),
                    Query(f"sum(rate({CLEANER}_dropped_total[{RATE}]))", "dropped"),
                    unit="ops",
                ),
                lines("Longest run", Query("kafka_log_logcleaner_max_clean_time_seconds", "{{instance}}"), unit="s"),
                lines(
                    "Since the cleaner looked for work",
                    Query("kafka_log_logcleanermanager_time_since_last_run_seconds", "{{instance}}"),
                    unit="s",
                ),
                lines(
                    "Bytes of the last run that were written again",
                    Query("kafka_log_logcleaner_cleaner_recopy_ratio", "{{instance}}"),
                    unit="percentunit",
                ),
            ),
        ),
    ),
)
