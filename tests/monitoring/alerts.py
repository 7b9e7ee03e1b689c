"""Alerts and recorded series for Prometheus, each described once.

Expressions hold for several clusters in one Prometheus: each groups by `job`, under which one cluster is scraped. A sum over
no series is nothing at all, and not zero. So an alert on what is missing counts from `_NONE`, a zero for each cluster with a
live process. A driver of the pipeline alone is no cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Final, Literal

Severity = Literal["critical", "warning", "info"]
RUNBOOKS: Final = "docs/operate/alerts.md"
LIMITS: Final[Mapping[str, str]] = {
    "window": "5m",
    "lag_s": "600",
    "rebalance_s": "600",
    "transaction_s": "900",
    "freshness_s": "1800",
    "compaction_delay_s": "3600",
    "produce_s": "1",
    "sync_s": "0.1",
    "store_s": "0.5",
    "isr_changes_per_s": "0.1",
    "throttled_share": "0.2",
    "busy_share": "0.9",
    "certificate_s": "2592000",
    "certificate_last_s": "604800",
    "starts": "3",
    "starts_window": "1h",
}
"""What `$NAME` stands for in expressions. Tests use other values."""

_ALIVE: Final = 'penstock_build_info{service!="pipeline"}'
_EXPIRES_IN: Final = "(penstock_gateway_certificate_expiry_timestamp_seconds > 0) - time()"
"""A gateway without a listener with TLS says 0. A certificate that has expired has a number below 0."""
_PEER_EXPIRES_IN: Final = "(penstock_rpc_certificate_expiry_timestamp_seconds > 0) - time()"
_ETCD_EXPIRES_IN: Final = "(penstock_metadata_store_certificate_expiry_timestamp_seconds > 0) - time()"
_ETCDS_EXPIRES_IN: Final = "(penstock_metadata_store_server_certificate_expiry_timestamp_seconds > 0) - time()"
_NONE: Final = f"0 * count by (job) ({_ALIVE})"


@dataclass(frozen=True, slots=True)
class Alert:
    """`hold`: for how long the expression must hold, in Prometheus' form. `summary` may name labels, as its templates do."""

    name: str
    severity: Severity
    expression: str
    hold: str
    summary: str


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes and keeps, named `level:metric:operation`."""

    name: str
    expression: str


RECORDINGS: Final = (
    Recording(
        "job:kafka_server_brokertopicmetrics_bytesin:rate",
        "sum by (job) (rate(kafka_server_brokertopicmetrics_bytesin_total[$window]))",
    ),
    Recording(
        "job:kafka_server_brokertopicmetrics_messagesin:rate",
        "sum by (job) (rate(kafka_server_brokertopicmetrics_messagesin_total[$window]))",
    ),
    Recording("job:penstock_gateway_sent_bytes:rate", "sum by (job) (rate(penstock_gateway_sent_bytes_total[$window]))"),
    Recording(
        "job_api:kafka_network_requestmetrics_totaltime_seconds:p99",
        "histogram_quantile(0.99, sum by (job, api, le) (rate(kafka_network_requestmetrics_totaltime_seconds_bucket[$window])))",
    ),
    Recording(
        "job_instance:kafka_log_logflushstats_logflushrateandtimes_seconds:p99",
        "histogram_quantile(0.99, "
        "sum by (job, instance, le) (rate(kafka_log_logflushstats_logflushrateandtimes_seconds_bucket[$window])))",
    ),
    Recording(
        "job_consumergroup_topic:penstock_consumergroup_lag_seconds:max",
        "max by (job, consumergroup, topic) (penstock_consumergroup_lag_seconds)",
    ),
)

ALERTS: Final = (
    Alert("PenstockAbsent", "critical", f"absent({_ALIVE})", "5m", "Prometheus scrapes no process of Penstock."),
    Alert(
        "PenstockProcessDown",
        "warning",
        "up == 0 and on (job) penstock_build_info",
        "2m",
        "{{ $labels.instance }} of {{ $labels.job }} cannot be scraped.",
    ),
    Alert(
        "PenstockProcessRestarts",
        "warning",
        "changes(process_start_time_seconds[$starts_window]) >= $starts and on (job, instance) penstock_build_info",
        "0s",
        "{{ $labels.instance }} of {{ $labels.job }} has started {{ $value }} times within an hour.",
    ),
    Alert(
        "PenstockProcessBusy",
        "warning",
        "rate(process_cpu_seconds_total[$window]) > $busy_share and on (job, instance) penstock_build_info",
        "15m",
        "{{ $labels.instance }} of {{ $labels.job }} takes a whole core.",
    ),
    Alert(
        "PenstockDescriptorsNearLimit",
        "warning",
        "process_open_fds / process_max_fds > 0.8 and on (job, instance) penstock_build_info",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} has used {{ $value | humanizePercentage }} of its file descriptors.",
    ),
    Alert(
        "PenstockVersionsDiffer",
        "info",
        "count by (job) (count by (job, version) (penstock_build_info)) > 1",
        "1h",
        "{{ $labels.job }} has run {{ $value }} versions for an hour.",
    ),
    Alert(
        "PenstockPeerCertificateExpires",
        "warning",
        f"{_PEER_EXPIRES_IN} < $certificate_s >= $certificate_last_s",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} shows other processes a certificate that expires in "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockPeerCertificateExpiresSoon",
        "critical",
        f"{_PEER_EXPIRES_IN} < $certificate_last_s",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} shows other processes a certificate that expires in "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockNoActiveController",
        "critical",
        f"(sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) or {_NONE}) != 1",
        "30s",
        "{{ $labels.job }} has {{ $value }} active controllers.",
    ),
    Alert(
        "PenstockPartitionsOffline",
        "critical",
        "max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "30s",
        "{{ $value }} partitions of {{ $labels.job }} have no leader.",
    ),
    Alert(
        "PenstockUncleanElection",
        "critical",
        "sum by (job) (increase(kafka_controller_controllerstats_uncleanleaderelections_total[$window])) > 0",
        "0s",
        "{{ $labels.job }} elected a leader that may lack acknowledged records.",
    ),
    Alert(
        "PenstockNodeFenced",
        "warning",
        "max by (job) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "5m",
        "{{ $value }} storage nodes of {{ $labels.job }} are registered and away.",
    ),
    Alert(
        "PenstockLeadersNotPreferred",
        "info",
        "max by (job) (kafka_controller_kafkacontroller_preferredreplicaimbalancecount) > 0",
        "30m",
        "{{ $value }} partitions of {{ $labels.job }} are not led by their first replica.",
    ),
    Alert(
        "PenstockMetadataStoreFails",
        "critical",
        "sum by (job) (rate(penstock_metadata_store_failures_total[$window])) > 0",
        "1m",
        "Processes of {{ $labels.job }} get no answer from etcd.",
    ),
    Alert(
        "PenstockMetadataStoreSlow",
        "warning",
        "histogram_quantile(0.99, sum by (job, le) (rate(penstock_metadata_store_call_seconds_bucket[$window]))) > $store_s",
        "5m",
        "One in a hundred calls of {{ $labels.job }} to etcd takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockEtcdCertificateExpires",
        "warning",
        f"{_ETCD_EXPIRES_IN} < $certificate_s >= $certificate_last_s",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} shows etcd a certificate that expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockEtcdCertificateExpiresSoon",
        "critical",
        f"{_ETCD_EXPIRES_IN} < $certificate_last_s",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} shows etcd a certificate that expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockEtcdServerCertificateExpires",
        "warning",
        f"min by (job) ({_ETCDS_EXPIRES_IN}) < $certificate_s >= $certificate_last_s",
        "5m",
        "A member of etcd of {{ $labels.job }} shows a certificate that expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockEtcdServerCertificateExpiresSoon",
        "critical",
        f"min by (job) ({_ETCDS_EXPIRES_IN}) < $certificate_last_s",
        "5m",
        "A member of etcd of {{ $labels.job }} shows a certificate that expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockUnownedShards",
        "critical",
        "max by (job) (penstock_unowned_shards) > 0",
        "1m",
        "{{ $value }} shards of internal topics of {{ $labels.job }} have no coordinator.",
    ),
    Alert(
        "PenstockUnderMinIsr",
        "critical",
        "sum by (job) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "30s",
        "{{ $value }} partitions of {{ $labels.job }} refuse acks=all.",
    ),
    Alert(
        "PenstockUnderReplicated",
        "warning",
        "sum by (job) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "10m",
        "{{ $value }} partitions of {{ $labels.job }} lack a replica in sync.",
    ),
    Alert(
        "PenstockIsrUnstable",
        "warning",
        "sum by (job) (rate(kafka_server_replicamanager_isrshrinks_total[$window])) > $isr_changes_per_s",
        "5m",
        "The ISRs of {{ $labels.job }} shrink {{ $value | humanize }} times a second.",
    ),
    Alert(
        "PenstockFollowerFailed",
        "warning",
        "max by (job, instance) (kafka_server_replicafetchermanager_failedpartitionscount) > 0",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} cannot follow {{ $value }} partitions.",
    ),
    Alert(
        "PenstockProducesHeldUp",
        "warning",
        "sum by (job, follower) (increase(penstock_storage_held_up_produces_total[$window])) > 0",
        "1m",
        "acks=all of {{ $labels.job }} waits for the follower on node {{ $labels.follower }}.",
    ),
    Alert(
        "PenstockProducesExpired",
        "warning",
        "sum by (job) (increase(kafka_server_delayedoperationpurgatory_expired_produces_total[$window])) > 0",
        "0s",
        "Batches of {{ $labels.job }} were not committed within their producers' timeout.",
    ),
    Alert(
        "PenstockLogDirectoryOffline",
        "critical",
        "kafka_log_logmanager_logdirectoryoffline == 1 "
        "unless on (job, instance, log_directory) penstock_storage_log_directory_full == 1",
        "0s",
        "{{ $labels.log_directory }} of {{ $labels.instance }} is retired after an error.",
    ),
    Alert(
        "PenstockDiskFull",
        "critical",
        "penstock_storage_log_directory_full == 1",
        "0s",
        "{{ $labels.log_directory }} of {{ $labels.instance }} is full and refuses appends.",
    ),
    Alert(
        "PenstockDiskAlmostFull",
        "warning",
        "penstock_storage_log_directory_free_bytes / penstock_storage_log_directory_size_bytes < 0.1",
        "5m",
        "{{ $labels.log_directory }} of {{ $labels.instance }} has {{ $value | humanizePercentage }} free.",
    ),
    Alert(
        "PenstockDiskStalled",
        "critical",
        "penstock_storage_stalled_directories > 0",
        "30s",
        "A disk of {{ $labels.instance }} hangs.",
    ),
    Alert(
        "PenstockSyncsSlow",
        "warning",
        "histogram_quantile(0.99, "
        "sum by (job, instance, le) (rate(kafka_log_logflushstats_logflushrateandtimes_seconds_bucket[$window]))) > $sync_s",
        "10m",
        "One in a hundred syncs of {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockLogsNotCleaned",
        "warning",
        "kafka_log_logcleanermanager_uncleanable_partitions > 0",
        "5m",
        "{{ $labels.instance }} skips {{ $value }} compacted logs in {{ $labels.log_directory }} after a failure.",
    ),
    Alert(
        "PenstockCompactionLate",
        "warning",
        "kafka_log_logcleaner_max_compaction_delay_seconds > $compaction_delay_s",
        "10m",
        "A log of {{ $labels.instance }} is {{ $value | humanizeDuration }} past its max.compaction.lag.ms.",
    ),
    Alert(
        "PenstockLateTransactions",
        "warning",
        "sum by (job) (kafka_server_replicamanager_partitionswithlatetransactionscount) > 0",
        "0s",
        "{{ $value }} partitions of {{ $labels.job }} have a transaction that no coordinator ends.",
    ),
    Alert(
        "PenstockTransactionOpenLong",
        "warning",
        "max by (job) (penstock_transactions_oldest_seconds) > $transaction_s",
        "0s",
        "A transaction of {{ $labels.job }} has been under way for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockGroupLags",
        "warning",
        "max by (job, consumergroup, topic) (penstock_consumergroup_lag_seconds) > $lag_s",
        "5m",
        "Group {{ $labels.consumergroup }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}.",
    ),
    Alert(
        "PenstockRebalanceStuck",
        "warning",
        "max by (job) (penstock_groups_longest_rebalance_seconds) > $rebalance_s",
        "0s",
        "A group of {{ $labels.job }} has rebalanced for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockDecisionsUnwritable",
        "warning",
        " or ".join(
            f'sum by (job) (increase(penstock_{each}_unwritable_decisions_total{{outcome="given up"}}[$window])) > 0'
            for each in ("groups", "transactions")
        ),
        "0s",
        "A coordinator of {{ $labels.job }} gave up a decision that it could not write.",
    ),
    Alert(
        "PenstockProduceSlow",
        "warning",
        "histogram_quantile(0.99, "
        'sum by (job, le) (rate(kafka_network_requestmetrics_totaltime_seconds_bucket{api="produce"}[$window]))) > $produce_s',
        "5m",
        "One in a hundred Produces of {{ $labels.job }} takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockInternalErrors",
        "critical",
        'sum by (job, api) (rate(penstock_gateway_request_errors_total{error="UNKNOWN_SERVER_ERROR"}[$window])) > 0',
        "1m",
        "{{ $labels.api }} of {{ $labels.job }} answers UNKNOWN_SERVER_ERROR.",
    ),
    Alert(
        "PenstockBatchesParked",
        "warning",
        "sum by (job) (penstock_gateway_parked_bytes) > 0",
        "1m",
        "{{ $value | humanize1024 }}B of batches of {{ $labels.job }} wait for a leader.",
    ),
    Alert(
        "PenstockConnectionsNearLimit",
        "warning",
        "penstock_gateway_connections / penstock_gateway_connections_max > 0.9",
        "5m",
        "{{ $labels.instance }} of {{ $labels.job }} has {{ $value | humanizePercentage }} of its connections.",
    ),
    Alert(
        "PenstockConnectionsRefused",
        "warning",
        "sum by (job, instance, reason) (increase(penstock_gateway_connections_refused_total[$window])) > 0",
        "1m",
        "{{ $labels.instance }} of {{ $labels.job }} refuses clients: {{ $labels.reason }}.",
    ),
    Alert(
        "PenstockClientsUnread",
        "warning",
        "penstock_gateway_connections_waiting > 0",
        "1m",
        "{{ $labels.instance }} of {{ $labels.job }} does not read {{ $value }} clients for lack of room.",
    ),
    Alert(
        "PenstockCertificateExpires",
        "warning",
        f"{_EXPIRES_IN} < $certificate_s >= $certificate_last_s",
        "5m",
        "The certificate of {{ $labels.instance }} of {{ $labels.job }} expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockCertificateExpiresSoon",
        "critical",
        f"{_EXPIRES_IN} < $certificate_last_s",
        "5m",
        "The certificate of {{ $labels.instance }} of {{ $labels.job }} expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "PenstockClientsThrottled",
        "info",
        "sum by (job, quota) (rate(penstock_gateway_throttle_seconds_total[$window])) > $throttled_share",
        "10m",
        "Clients of {{ $labels.job }} are muted by the quota {{ $labels.quota }}.",
    ),
    Alert(
        "PenstockNoQuotaManager",
        "warning",
        f"(sum by (job) (penstock_quota_manager_elected) or {_NONE}) != 1",
        "30s",
        "{{ $labels.job }} has {{ $value }} elected quota managers.",
    ),
    Alert(
        "PenstockGatewaySilent",
        "warning",
        "max by (job) (penstock_quota_manager_silent_gateways) > 0",
        "2m",
        "{{ $value }} gateways of {{ $labels.job }} do not reach the quota manager.",
    ),
    Alert(
        "PenstockPipelineBehind",
        "warning",
        "max by (job, exported_job, topic) (penstock_pipeline_freshness_seconds) > $freshness_s",
        "10m",
        "Job {{ $labels.exported_job }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}.",
    ),
    Alert(
        "PenstockDeadLetters",
        "warning",
        "sum by (job, exported_job) (increase(penstock_pipeline_dead_letters_total[$window])) > 0",
        "0s",
        "Job {{ $labels.exported_job }} put records into its dead-letter table.",
    ),
)


def runbook(alert: Alert) -> str:
    """The section that tells what to do, as a link from the top of the repository."""
    return f"{RUNBOOKS}#{alert.name.lower()}"


def expression_of(rule: Alert | Recording, limits: Mapping[str, str] = LIMITS) -> str:
    """The expression with the values of `limits`."""
    return Template(rule.expression).substitute(limits)
