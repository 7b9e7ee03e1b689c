"""For each alert, series at which it fires, for `promtool test rules`; and a healthy cluster's series, at which none does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Series = Mapping[str, str]
"""By series: its values, one each 30 s, in promtool's form (`0+1x400` counts up by one)."""
CONSTANT: Final = "x250"


@dataclass(frozen=True, slots=True)
class Case:
    """`series` replace those of the same metric in a healthy cluster; `labels` and `summary` are those of the alert."""

    series: Series
    labels: Mapping[str, str]
    summary: str
    without: tuple[str, ...] = field(default=())
    """Metrics that are not there at all."""


def _buckets(name: str, labels: str, below_s: str) -> Series:
    """Ten durations in 30 s, all at most that long."""
    comma = "," if labels else ""
    return {f'{name}_bucket{{{ON}{comma}{labels},le="{edge}"}}': f"0+10{CONSTANT}" for edge in (below_s, "+Inf")}


ON: Final = 'job="c",instance="a"'
DISK: Final = f'{ON},log_directory="/d"'
FLUSH: Final = "kafka_log_logflushstats_logflushrateandtimes_seconds"
REQUEST: Final = "kafka_network_requestmetrics_totaltime_seconds"
CALL: Final = "penstock_metadata_store_call_seconds"

HEALTHY: Final[Series] = {
    f'penstock_build_info{{{ON},service="storage",version="1"}}': f"1{CONSTANT}",
    f"up{{{ON}}}": f"1{CONSTANT}",
    f"process_start_time_seconds{{{ON}}}": f"1000{CONSTANT}",
    f"process_cpu_seconds_total{{{ON}}}": f"0+1{CONSTANT}",
    f"process_open_fds{{{ON}}}": f"100{CONSTANT}",
    f"process_max_fds{{{ON}}}": f"1000{CONSTANT}",
    f"kafka_controller_kafkacontroller_activecontrollercount{{{ON}}}": f"1{CONSTANT}",
    f"kafka_controller_kafkacontroller_offlinepartitionscount{{{ON}}}": f"0{CONSTANT}",
    f"kafka_controller_controllerstats_uncleanleaderelections_total{{{ON}}}": f"2{CONSTANT}",
    f"kafka_controller_kafkacontroller_fencedbrokercount{{{ON}}}": f"0{CONSTANT}",
    f"kafka_controller_kafkacontroller_preferredreplicaimbalancecount{{{ON}}}": f"0{CONSTANT}",
    f'penstock_metadata_store_failures_total{{{ON},call="txn"}}': f"3{CONSTANT}",
    **_buckets(CALL, 'call="txn"', "0.1"),
    f"penstock_unowned_shards{{{ON}}}": f"0{CONSTANT}",
    f"kafka_server_replicamanager_underminisrpartitioncount{{{ON}}}": f"0{CONSTANT}",
    f"kafka_server_replicamanager_underreplicatedpartitions{{{ON}}}": f"0{CONSTANT}",
    f"kafka_server_replicamanager_isrshrinks_total{{{ON}}}": f"7{CONSTANT}",
    f"kafka_server_replicafetchermanager_failedpartitionscount{{{ON}}}": f"0{CONSTANT}",
    f'penstock_storage_held_up_produces_total{{{ON},follower="2"}}': f"4{CONSTANT}",
    f"kafka_server_delayedoperationpurgatory_expired_produces_total{{{ON}}}": f"1{CONSTANT}",
    f"kafka_log_logmanager_logdirectoryoffline{{{DISK}}}": f"0{CONSTANT}",
    f"penstock_storage_log_directory_full{{{DISK}}}": f"0{CONSTANT}",
    f"penstock_storage_log_directory_free_bytes{{{DISK}}}": f"50{CONSTANT}",
    f"penstock_storage_log_directory_size_bytes{{{DISK}}}": f"100{CONSTANT}",
    f"penstock_storage_stalled_directories{{{ON}}}": f"0{CONSTANT}",
    **_buckets(FLUSH, "", "0.01"),
    f"kafka_log_logcleanermanager_uncleanable_partitions{{{DISK}}}": f"0{CONSTANT}",
    f"kafka_log_logcleaner_max_compaction_delay_seconds{{{ON}}}": f"0{CONSTANT}",
    f"kafka_server_replicamanager_partitionswithlatetransactionscount{{{ON}}}": f"0{CONSTANT}",
    f"penstock_transactions_oldest_seconds{{{ON}}}": f"5{CONSTANT}",
    f'penstock_consumergroup_lag_seconds{{{ON},consumergroup="g",topic="t",partition="0"}}': f"3{CONSTANT}",
    f"penstock_groups_longest_rebalance_seconds{{{ON}}}": f"2{CONSTANT}",
    f'penstock_groups_unwritable_decisions_total{{{ON},asked_by="timer",outcome="given up"}}': f"1{CONSTANT}",
    f'penstock_transactions_unwritable_decisions_total{{{ON},asked_by="timer",outcome="given up"}}': f"1{CONSTANT}",
    **_buckets(REQUEST, 'api="produce"', "0.01"),
    f'penstock_gateway_request_errors_total{{{ON},api="produce",error="UNKNOWN_SERVER_ERROR"}}': f"2{CONSTANT}",
    f"penstock_gateway_parked_bytes{{{ON}}}": f"0{CONSTANT}",
    f"penstock_gateway_connections{{{ON}}}": f"10{CONSTANT}",
    f"penstock_gateway_connections_max{{{ON}}}": f"100{CONSTANT}",
    f'penstock_gateway_connections_refused_total{{{ON},reason="max-connections"}}': f"1{CONSTANT}",
    f"penstock_gateway_connections_waiting{{{ON}}}": f"0{CONSTANT}",
    f"penstock_gateway_certificate_expiry_timestamp_seconds{{{ON}}}": f"5000000{CONSTANT}",
    f"penstock_rpc_certificate_expiry_timestamp_seconds{{{ON}}}": f"5000000{CONSTANT}",
    f"penstock_metadata_store_certificate_expiry_timestamp_seconds{{{ON}}}": f"5000000{CONSTANT}",
    f"penstock_metadata_store_server_certificate_expiry_timestamp_seconds{{{ON}}}": f"5000000{CONSTANT}",
    f'penstock_gateway_throttle_seconds_total{{{ON},quota="produce"}}': f"5{CONSTANT}",
    f"penstock_quota_manager_elected{{{ON}}}": f"1{CONSTANT}",
    f"penstock_quota_manager_silent_gateways{{{ON}}}": f"0{CONSTANT}",
    f'penstock_pipeline_freshness_seconds{{{ON},exported_job="packages",topic="t"}}': f"5{CONSTANT}",
    f'penstock_pipeline_dead_letters_total{{{ON},exported_job="packages"}}': f"3{CONSTANT}",
}

_JOB: Final = {"job": "c"}
_PROCESS: Final = {"job": "c", "instance": "a"}
_DIRECTORY: Final = {**_PROCESS, "log_directory": "/d"}


def _value(metric: str, value: str, labels: Mapping[str, str], summary: str) -> Case:
    """A metric whose value is another than a healthy cluster's, with the same labels."""
    series = next(each for each in HEALTHY if each.startswith(f"{metric}{{"))
    return Case({series: f"{value}{CONSTANT}"}, labels, summary)


CASES: Final[Mapping[str, Case]] = {
    "PenstockAbsent": Case({}, {}, "Prometheus scrapes no process of Penstock.", ("penstock_build_info",)),
    "PenstockProcessDown": Case(
        {f"up{{{ON}}}": f"1{CONSTANT}", 'up{job="c",instance="b"}': f"0{CONSTANT}"},
        {"job": "c", "instance": "b"},
        "b of c cannot be scraped.",
    ),
    "PenstockProcessRestarts": _value(
        "process_start_time_seconds", "1000 2000 3000 4000", _PROCESS, "a of c has started 3 times within an hour."
    ),
    "PenstockProcessBusy": _value("process_cpu_seconds_total", "0+30", _PROCESS, "a of c takes a whole core."),
    "PenstockDescriptorsNearLimit": _value("process_open_fds", "900", _PROCESS, "a of c has used 90% of its file descriptors."),
    "PenstockVersionsDiffer": Case(
        {f'penstock_build_info{{{ON},service="gateway",version="{version}"}}': f"1{CONSTANT}" for version in "12"},
        _JOB,
        "c has run 2 versions for an hour.",
    ),
    "PenstockNoActiveController": Case(
        {}, _JOB, "c has 0 active controllers.", ("kafka_controller_kafkacontroller_activecontrollercount",)
    ),
    "PenstockPartitionsOffline": _value(
        "kafka_controller_kafkacontroller_offlinepartitionscount", "4", _JOB, "4 partitions of c have no leader."
    ),
    "PenstockUncleanElection": _value(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "0+1",
        _JOB,
        "c elected a leader that may lack acknowledged records.",
    ),
    "PenstockNodeFenced": _value(
        "kafka_controller_kafkacontroller_fencedbrokercount", "1", _JOB, "1 storage nodes of c are registered and away."
    ),
    "PenstockLeadersNotPreferred": _value(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "6",
        _JOB,
        "6 partitions of c are not led by their first replica.",
    ),
    "PenstockMetadataStoreFails": _value(
        "penstock_metadata_store_failures_total", "0+1", _JOB, "Processes of c get no answer from etcd."
    ),
    "PenstockMetadataStoreSlow": Case(
        _buckets(CALL, 'call="txn"', "2"), _JOB, "One in a hundred calls of c to etcd takes 1.98s."
    ),
    "PenstockUnownedShards": _value(
        "penstock_unowned_shards", "50", _JOB, "50 shards of internal topics of c have no coordinator."
    ),
    "PenstockUnderMinIsr": _value(
        "kafka_server_replicamanager_underminisrpartitioncount", "2", _JOB, "2 partitions of c refuse acks=all."
    ),
    "PenstockUnderReplicated": _value(
        "kafka_server_replicamanager_underreplicatedpartitions", "3", _JOB, "3 partitions of c lack a replica in sync."
    ),
    "PenstockIsrUnstable": _value(
        "kafka_server_replicamanager_isrshrinks_total", "0+30", _JOB, "The ISRs of c shrink 1 times a second."
    ),
    "PenstockFollowerFailed": _value(
        "kafka_server_replicafetchermanager_failedpartitionscount", "1", _PROCESS, "a of c cannot follow 1 partitions."
    ),
    "PenstockProducesHeldUp": _value(
        "penstock_storage_held_up_produces_total",
        "0+1",
        {**_JOB, "follower": "2"},
        "acks=all of c waits for the follower on node 2.",
    ),
    "PenstockProducesExpired": _value(
        "kafka_server_delayedoperationpurgatory_expired_produces_total",
        "0+1",
        _JOB,
        "Batches of c were not committed within their producers' timeout.",
    ),
    "PenstockLogDirectoryOffline": _value(
        "kafka_log_logmanager_logdirectoryoffline", "1", _DIRECTORY, "/d of a is retired after an error."
    ),
    "PenstockDiskFull": Case(
        {
            f"kafka_log_logmanager_logdirectoryoffline{{{DISK}}}": f"1{CONSTANT}",
            f"penstock_storage_log_directory_full{{{DISK}}}": f"1{CONSTANT}",
        },
        _DIRECTORY,
        "/d of a is full and refuses appends.",
    ),
    "PenstockDiskAlmostFull": _value("penstock_storage_log_directory_free_bytes", "5", _DIRECTORY, "/d of a has 5% free."),
    "PenstockDiskStalled": _value("penstock_storage_stalled_directories", "1", _PROCESS, "A disk of a hangs."),
    "PenstockSyncsSlow": Case(_buckets(FLUSH, "", "0.5"), _PROCESS, "One in a hundred syncs of a takes 495ms."),
    "PenstockLogsNotCleaned": _value(
        "kafka_log_logcleanermanager_uncleanable_partitions",
        "2",
        _DIRECTORY,
        "a skips 2 compacted logs in /d after a failure.",
    ),
    "PenstockCompactionLate": _value(
        "kafka_log_logcleaner_max_compaction_delay_seconds",
        "7200",
        _PROCESS,
        "A log of a is 2h 0m 0s past its max.compaction.lag.ms.",
    ),
    "PenstockLateTransactions": _value(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "1",
        _JOB,
        "1 partitions of c have a transaction that no coordinator ends.",
    ),
    "PenstockTransactionOpenLong": _value(
        "penstock_transactions_oldest_seconds", "960", _JOB, "A transaction of c has been under way for 16m 0s."
    ),
    "PenstockGroupLags": _value(
        "penstock_consumergroup_lag_seconds",
        "700",
        {**_JOB, "consumergroup": "g", "topic": "t"},
        "Group g is 11m 40s behind in t.",
    ),
    "PenstockRebalanceStuck": _value(
        "penstock_groups_longest_rebalance_seconds", "601", _JOB, "A group of c has rebalanced for 10m 1s."
    ),
    "PenstockDecisionsUnwritable": _value(
        "penstock_transactions_unwritable_decisions_total",
        "0+1",
        _JOB,
        "A coordinator of c gave up a decision that it could not write.",
    ),
    "PenstockProduceSlow": Case(_buckets(REQUEST, 'api="produce"', "2"), _JOB, "One in a hundred Produces of c takes 1.98s."),
    "PenstockInternalErrors": _value(
        "penstock_gateway_request_errors_total",
        "0+1",
        {**_JOB, "api": "produce"},
        "produce of c answers UNKNOWN_SERVER_ERROR.",
    ),
    "PenstockBatchesParked": _value("penstock_gateway_parked_bytes", "2048", _JOB, "2kiB of batches of c wait for a leader."),
    "PenstockConnectionsNearLimit": _value("penstock_gateway_connections", "95", _PROCESS, "a of c has 95% of its connections."),
    "PenstockConnectionsRefused": _value(
        "penstock_gateway_connections_refused_total",
        "0+1",
        {**_PROCESS, "reason": "max-connections"},
        "a of c refuses clients: max-connections.",
    ),
    "PenstockClientsUnread": _value(
        "penstock_gateway_connections_waiting", "7", _PROCESS, "a of c does not read 7 clients for lack of room."
    ),
    "PenstockCertificateExpires": _value(  # the clock of promtool begins at 0, and the alert is looked at after 660 s
        "penstock_gateway_certificate_expiry_timestamp_seconds",
        "1000000",
        _PROCESS,
        "The certificate of a of c expires in 11d 13h 35m 40s.",
    ),
    "PenstockCertificateExpiresSoon": _value(
        "penstock_gateway_certificate_expiry_timestamp_seconds",
        "100000",
        _PROCESS,
        "The certificate of a of c expires in 1d 3h 35m 40s.",
    ),
    "PenstockPeerCertificateExpires": _value(
        "penstock_rpc_certificate_expiry_timestamp_seconds",
        "1000000",
        _PROCESS,
        "a of c shows other processes a certificate that expires in 11d 13h 35m 40s.",
    ),
    "PenstockPeerCertificateExpiresSoon": _value(
        "penstock_rpc_certificate_expiry_timestamp_seconds",
        "100000",
        _PROCESS,
        "a of c shows other processes a certificate that expires in 1d 3h 35m 40s.",
    ),
    "PenstockEtcdCertificateExpires": _value(
        "penstock_metadata_store_certificate_expiry_timestamp_seconds",
        "1000000",
        _PROCESS,
        "a of c shows etcd a certificate that expires in 11d 13h 35m 40s.",
    ),
    "PenstockEtcdCertificateExpiresSoon": _value(
        "penstock_metadata_store_certificate_expiry_timestamp_seconds",
        "100000",
        _PROCESS,
        "a of c shows etcd a certificate that expires in 1d 3h 35m 40s.",
    ),
    "PenstockEtcdServerCertificateExpires": _value(
        "penstock_metadata_store_server_certificate_expiry_timestamp_seconds",
        "1000000",
        _JOB,
        "A member of etcd of c shows a certificate that expires in 11d 13h 35m 40s.",
    ),
    "PenstockEtcdServerCertificateExpiresSoon": _value(
        "penstock_metadata_store_server_certificate_expiry_timestamp_seconds",
        "100000",
        _JOB,
        "A member of etcd of c shows a certificate that expires in 1d 3h 35m 40s.",
    ),
    "PenstockClientsThrottled": _value(
        "penstock_gateway_throttle_seconds_total",
        "0+15",
        {**_JOB, "quota": "produce"},
        "Clients of c are muted by the quota produce.",
    ),
    "PenstockNoQuotaManager": Case({}, _JOB, "c has 0 elected quota managers.", ("penstock_quota_manager_elected",)),
    "PenstockGatewaySilent": _value(
        "penstock_quota_manager_silent_gateways", "1", _JOB, "1 gateways of c do not reach the quota manager."
    ),
    "PenstockPipelineBehind": _value(
        "penstock_pipeline_freshness_seconds",
        "1860",
        {**_JOB, "exported_job": "packages", "topic": "t"},
        "Job packages is 31m 0s behind in t.",
    ),
    "PenstockDeadLetters": _value(
        "penstock_pipeline_dead_letters_total",
        "0+1",
        {**_JOB, "exported_job": "packages"},
        "Job packages put records into its dead-letter table.",
    ),
}
"""By alert. Of several values, the last one is repeated."""
