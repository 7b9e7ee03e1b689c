"""The table of what is checked: one row for each API that this gateway serves, as in Kafka."""

from typing import Final

from libs.wire.api_keys import ApiKey
from services.gateway.authorization import cluster, configs, groups, topic_admin, topics, transactions
from services.gateway.authorization.access import Row, nothing
from services.gateway.authorization.groups import membership

# fmt: off
ROWS: Final[dict[ApiKey, Row]] = {
    ApiKey.API_VERSIONS: Row(nothing),
    ApiKey.SASL_HANDSHAKE: Row(nothing),
    ApiKey.SASL_AUTHENTICATE: Row(nothing),

    ApiKey.PRODUCE: Row(topics.produce, repeats=True),
    ApiKey.FETCH: Row(topics.fetch, repeats=True),
    ApiKey.LIST_OFFSETS: Row(topics.list_offsets_),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(topics.offset_for_leader_epoch_),
    ApiKey.METADATA: Row(topics.metadata),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(topics.describe_topic_partitions),
    ApiKey.DELETE_RECORDS: Row(topics.delete_records_),
    ApiKey.DESCRIBE_PRODUCERS: Row(topics.describe_producers_),
    ApiKey.CREATE_TOPICS: Row(topic_admin.create_topics),
    ApiKey.CREATE_PARTITIONS: Row(topic_admin.create_partitions),
    ApiKey.DELETE_TOPICS: Row(topic_admin.delete_topics),

    ApiKey.DESCRIBE_CONFIGS: Row(configs.describe),
    ApiKey.ALTER_CONFIGS: Row(configs.alter),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(configs.alter_incrementally),
    ApiKey.LIST_CONFIG_RESOURCES: Row(cluster.list_config_resources_),

    ApiKey.FIND_COORDINATOR: Row(groups.find_coordinator),
    ApiKey.JOIN_GROUP: Row(membership(ApiKey.JOIN_GROUP), repeats=True),
    ApiKey.SYNC_GROUP: Row(membership(ApiKey.SYNC_GROUP), repeats=True),
    ApiKey.HEARTBEAT: Row(membership(ApiKey.HEARTBEAT), repeats=True),
    ApiKey.LEAVE_GROUP: Row(membership(ApiKey.LEAVE_GROUP), repeats=True),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(groups.consumer_group_heartbeat_),
    ApiKey.OFFSET_COMMIT: Row(groups.offset_commit_),
    ApiKey.OFFSET_FETCH: Row(groups.offset_fetch_),
    ApiKey.OFFSET_DELETE: Row(groups.offset_delete_),
    ApiKey.LIST_GROUPS: Row(groups.list_groups),
    ApiKey.DESCRIBE_GROUPS: Row(groups.describe_groups),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(groups.consumer_group_describe),
    ApiKey.DELETE_GROUPS: Row(groups.delete_groups_),

    ApiKey.INIT_PRODUCER_ID: Row(transactions.init_producer_id, repeats=True),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(transactions.add_partitions),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(transactions.add_offsets),
    ApiKey.TXN_OFFSET_COMMIT: Row(transactions.txn_offset_commit_),
    ApiKey.END_TXN: Row(transactions.end_txn, repeats=True),
    ApiKey.WRITE_TXN_MARKERS: Row(transactions.write_txn_markers),
    ApiKey.LIST_TRANSACTIONS: Row(transactions.list_transactions),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(transactions.describe_transactions),

    ApiKey.DESCRIBE_CLUSTER: Row(cluster.describe_cluster),
    ApiKey.DESCRIBE_ACLS: Row(cluster.describe_acls_),
    ApiKey.CREATE_ACLS: Row(cluster.create_acls_),
    ApiKey.DELETE_ACLS: Row(cluster.delete_acls_),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Row(cluster.describe_client_quotas_),
    ApiKey.ALTER_CLIENT_QUOTAS: Row(cluster.alter_client_quotas_),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row(cluster.describe_users),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row(cluster.alter_users),
    ApiKey.DESCRIBE_LOG_DIRS: Row(cluster.describe_log_dirs_),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Row(cluster.alter_replica_log_dirs_),
    ApiKey.ELECT_LEADERS: Row(cluster.elect_leaders_),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(cluster.alter_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(cluster.list_reassignments),
    ApiKey.DESCRIBE_QUORUM: Row(cluster.describe_quorum_),
    ApiKey.UPDATE_FEATURES: Row(cluster.update_features_),
    ApiKey.UNREGISTER_BROKER: Row(cluster.unregister_broker_),
}
# fmt: on
