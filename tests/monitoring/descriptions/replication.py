"""Replication: ISRs, followers, leaders."""

from typing import Final

from tests.monitoring.panels import Dashboard, Query, Row, lines, number, rates

MANAGER: Final = "kafka_server_replicamanager"

REPLICATION: Final = Dashboard(
    name="replication",
    title="replication",
    purpose="Is each record where it should be, and which follower stays behind?",
    variables=("instance",),
    rows=(
        Row(
            "In sync",
            (
                number("Under-replicated", f"sum({MANAGER}_underreplicatedpartitions)", high=1),
                number("At min.insync.replicas", f"sum({MANAGER}_atminisrpartitioncount)"),
                number("Below min.insync.replicas", f"sum({MANAGER}_underminisrpartitioncount)", high=1),
                number("Followers that failed", "sum(kafka_server_replicafetchermanager_failedpartitionscount)", high=1),
                number("Leaders", f"sum({MANAGER}_leadercount)"),
                number("Replicas", f"sum({MANAGER}_partitioncount)"),
                rates("ISRs shrink", f"{MANAGER}_isrshrinks_total", "instance"),
                rates("ISRs expand", f"{MANAGER}_isrexpands_total", "instance"),
                lines(
                    "Under-replicated partitions",
                    Query("sum by (topic) (kafka_cluster_partition_underreplicated)", "{{topic}}"),
                    high=1,
                ),
            ),
        ),
        Row(
            "Followers",
            (
                lines(
                    "Offsets behind the leader",
                    Query("kafka_server_fetcherlagmetrics_consumerlag", "{{instance}} behind {{leader}}"),
                ),
                rates("Bytes copied", "kafka_server_fetcherstats_bytes_total", "leader", unit="Bps"),
                rates("Pulls answered", "kafka_server_fetcherstats_requests_total", "leader"),
                rates("acks=all held up, by follower", "penstock_storage_held_up_produces_total", "follower"),
                rates("acks=all expired", "kafka_server_delayedoperationpurgatory_expired_produces_total", "instance"),
                rates("Logs truncated", "penstock_storage_follower_cuts_total", "instance"),
                lines("Slowest partition", Query("kafka_server_replicafetchermanager_maxlag", "{{instance}}")),
                rates(
                    "Bytes in by replication", "kafka_server_brokertopicmetrics_replicationbytesin_total", "instance", unit="Bps"
                ),
                rates(
                    "Bytes out by replication",
                    "kafka_server_brokertopicmetrics_replicationbytesout_total",
                    "instance",
                    unit="Bps",
                ),
            ),
        ),
        Row(
            "Balance",
            (
                lines("Leaders", Query(f"{MANAGER}_leadercount", "{{instance}}")),
                lines("Replicas", Query(f"{MANAGER}_partitioncount", "{{instance}}")),
                lines(
                    "Partitions not led by their first replica",
                    Query("max(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)", "partitions"),
                ),
            ),
        ),
    ),
)
