"""The cluster at a glance: is it healthy, and where to look if it is not."""

from typing import Final

from tests.monitoring.panels import RATE, Dashboard, Panel, Query, Row, lines, number, quantiles, rates, table

CONTROLLER: Final = "kafka_controller_kafkacontroller"
STATS: Final = "kafka_controller_controllerstats"
MANAGER: Final = "kafka_server_replicamanager"


def late(title: str, histogram: str, *, high: float) -> Panel:
    """The 99th percentile of a time in which a process did nothing else, for each process."""
    rate = f"sum by (le, instance) (rate({histogram}_bucket[{RATE}]))"
    return lines(f"{title}, p99", Query(f"histogram_quantile(0.99, {rate})", "{{instance}}"), unit="s", high=high)


CLUSTER: Final = Dashboard(
    name="cluster",
    title="cluster",
    purpose="Is the cluster healthy? What is red leads to the dashboard of that part.",
    rows=(
        Row(
            "Health",
            (
                number("Active controllers", f"sum({CONTROLLER}_activecontrollercount) or vector(0)", low=1, high=2),
                number("Partitions offline", f"max({CONTROLLER}_offlinepartitionscount)", high=1),
                number("Below min.insync.replicas", f"sum({MANAGER}_underminisrpartitioncount)", high=1),
                number("Under-replicated", f"sum({MANAGER}_underreplicatedpartitions)", high=1),
                number("Log directories offline", "sum(kafka_log_logmanager_offlinelogdirectorycount)", high=1),
                number("Shards without a coordinator", "max(penstock_unowned_shards)", high=1),
                number("Storage nodes", f"max({CONTROLLER}_activebrokercount)", low=1),
                number("Storage nodes away", f"max({CONTROLLER}_fencedbrokercount)", high=1),
                number("Processes down", "count(up == 0) or vector(0)", high=1),
                number("Quota managers", "sum(penstock_quota_manager_elected) or vector(0)", low=1, high=2),
                number("Topics", f"max({CONTROLLER}_globaltopiccount)"),
                number("Partitions", f"max({CONTROLLER}_globalpartitioncount)"),
            ),
        ),
        Row(
            "Load",
            (
                lines(
                    "Bytes of clients",
                    Query(f"sum(rate(penstock_gateway_received_bytes_total[{RATE}]))", "received"),
                    Query(f"sum(rate(penstock_gateway_sent_bytes_total[{RATE}]))", "sent"),
                    unit="Bps",
                ),
                lines(
                    "Records",
                    Query(f"sum(rate(kafka_server_brokertopicmetrics_messagesin_total[{RATE}]))", "appended"),
                    unit="ops",
                ),
                rates("Errors in answers", "penstock_gateway_request_errors_total", "error"),
            ),
        ),
        Row(
            "Controller and metadata store",
            (
                lines(
                    "Leader elections",
                    Query(f"sum(rate({STATS}_leaderelectionrateandtime_seconds_count[{RATE}]))", "all"),
                    Query(f"sum(rate({STATS}_uncleanleaderelections_total[{RATE}]))", "unclean"),
                    unit="ops",
                ),
                quantiles("Time of elections", f"{STATS}_leaderelectionrateandtime_seconds", high=1),
                quantiles("Calls to etcd", "penstock_metadata_store_call_seconds", by="call", high=0.5),
                rates("Calls to etcd without an answer", "penstock_metadata_store_failures_total", "call"),
                lines(
                    "Administrative requests that wait", Query("max(penstock_controller_waiting_requests)", "waiting"), high=10
                ),
                lines(
                    "Moves of replicas",
                    Query("max(penstock_balancing_moving_partitions)", "under way"),
                    Query("max(penstock_balancing_planned_steps)", "planned"),
                    Query("max(penstock_decommissioning_replicas)", "on nodes that go"),
                ),
            ),
        ),
        Row(
            "Processes",
            (
                lines("CPU", Query(f"rate(process_cpu_seconds_total[{RATE}])", "{{instance}}"), unit="percentunit", high=0.9),
                lines("Memory of their own", Query('penstock_process_memory_bytes{kind="own"}', "{{instance}}"), unit="bytes"),
                lines(
                    "File descriptors used",
                    Query("process_open_fds / process_max_fds", "{{instance}}"),
                    unit="percentunit",
                    high=0.8,
                ),
                late("Lag of event loops", "penstock_event_loop_lag_seconds", high=0.05),
                late("Pauses for garbage collection", "penstock_gc_pause_seconds", high=0.1),
                lines(
                    "Seconds of garbage collection in a second",
                    Query(f"sum by (instance) (rate(penstock_gc_pause_seconds_sum[{RATE}]))", "{{instance}}"),
                    unit="percentunit",
                    high=0.1,
                ),
                lines(
                    "Until the certificate for other processes expires (0: none)",
                    Query("clamp_min(penstock_rpc_certificate_expiry_timestamp_seconds - time(), 0)", "{{instance}}"),
                    unit="s",
                    width=12,
                ),
                lines(
                    "Until certificates for etcd and of etcd expire (0: none)",
                    Query("clamp_min(penstock_metadata_store_certificate_expiry_timestamp_seconds - time(), 0)", "{{instance}}"),
                    Query(
                        "clamp_min(penstock_metadata_store_server_certificate_expiry_timestamp_seconds - time(), 0)",
                        "etcd, as {{instance}} sees it",
                    ),
                    unit="s",
                    width=12,
                ),
                table("Versions", Query("count by (service, version) (penstock_build_info)")),
                table("Seconds since the start", Query("time() - process_start_time_seconds"), unit="s"),
            ),
        ),
    ),
)
