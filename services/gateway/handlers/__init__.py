"""The handler of each API that this gateway serves. Versions and codecs stand in the registry, `libs/wire/apis.py`.

Each handler is the module with its API's name. The differences from Kafka are listed in
`services/gateway/protocol_docs/differences.py`. This
room imports `shortcuts`, `groups`, `fetch`, `produce`, `data_path` and `peers`.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)

__all__ = ["SERVED", "ServedApi"]


async def _answer_api_versions(
    gateway: GatewayState, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    # The only handler that needs the table itself.
    return api_versions.answer(context, request, [row.api for row in SERVED.values()], gateway.image)


_TABLE: Final = (
    ServedApi(APIS[ApiKey.PRODUCE], begin=produce.begin),
    ServedApi(APIS[ApiKey.FETCH], begin=fetch.begin),
    ServedApi(APIS[ApiKey.ADD_OFFSETS_TO_TXN], add_offsets_to_txn.handle, begin=add_offsets_to_txn.begin),
    ServedApi(APIS[ApiKey.ADD_PARTITIONS_TO_TXN], add_partitions_to_txn.handle, begin=add_partitions_to_txn.begin),
    ServedApi(APIS[ApiKey.ALTER_CONFIGS], alter_configs.handle),
    ServedApi(APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS], alter_partition_reassignments.handle),
    ServedApi(APIS[ApiKey.ALTER_REPLICA_LOG_DIRS], alter_replica_log_dirs.handle),
    ServedApi(APIS[ApiKey.API_VERSIONS], _answer_api_versions),
    ServedApi(APIS[ApiKey.CONSUMER_GROUP_DESCRIBE], consumer_group_describe.handle, begin=consumer_group_describe.begin),
    ServedApi(APIS[ApiKey.CONSUMER_GROUP_HEARTBEAT], begin=consumer_group_heartbeat.begin),
    ServedApi(APIS[ApiKey.CREATE_ACLS], create_acls.handle),
    ServedApi(APIS[ApiKey.CREATE_PARTITIONS], create_partitions.handle),
    ServedApi(APIS[ApiKey.CREATE_TOPICS], create_topics.handle),
    ServedApi(APIS[ApiKey.DELETE_ACLS], delete_acls.handle),
    ServedApi(APIS[ApiKey.DELETE_GROUPS], delete_groups.handle, begin=delete_groups.begin),
    ServedApi(APIS[ApiKey.DELETE_RECORDS], delete_records.handle),
    ServedApi(APIS[ApiKey.DELETE_TOPICS], delete_topics.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_ACLS], describe_acls.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_CLUSTER], describe_cluster.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_CONFIGS], describe_configs.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_GROUPS], describe_groups.handle, begin=describe_groups.begin),
    ServedApi(APIS[ApiKey.DESCRIBE_LOG_DIRS], describe_log_dirs.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_QUORUM], describe_quorum.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_TOPIC_PARTITIONS], describe_topic_partitions.handle),
    ServedApi(APIS[ApiKey.DESCRIBE_TRANSACTIONS], describe_transactions.handle, begin=describe_transactions.begin),
    ServedApi(APIS[ApiKey.DESCRIBE_PRODUCERS], describe_producers.handle),
    ServedApi(APIS[ApiKey.ELECT_LEADERS], elect_leaders.handle),
    ServedApi(APIS[ApiKey.END_TXN], begin=end_txn.begin),
    ServedApi(APIS[ApiKey.FIND_COORDINATOR], find_coordinator.handle),
    ServedApi(APIS[ApiKey.HEARTBEAT], begin=heartbeat.begin),
    ServedApi(APIS[ApiKey.INCREMENTAL_ALTER_CONFIGS], incremental_alter_configs.handle),
    ServedApi(APIS[ApiKey.INIT_PRODUCER_ID], init_producer_id.handle, begin=init_producer_id.begin),
    ServedApi(APIS[ApiKey.JOIN_GROUP], begin=join_group.begin),
    ServedApi(APIS[ApiKey.LEAVE_GROUP], begin=leave_group.begin),
    ServedApi(APIS[ApiKey.LIST_CONFIG_RESOURCES], list_config_resources.handle),
    ServedApi(APIS[ApiKey.LIST_GROUPS], list_groups.handle),
    ServedApi(APIS[ApiKey.LIST_OFFSETS], list_offsets.handle, shortcut=list_offsets.SHORTCUT),
    ServedApi(APIS[ApiKey.LIST_PARTITION_REASSIGNMENTS], list_partition_reassignments.handle),
    ServedApi(APIS[ApiKey.LIST_TRANSACTIONS], list_transactions.handle),
    ServedApi(APIS[ApiKey.METADATA], metadata.handle),
    ServedApi(APIS[ApiKey.OFFSET_COMMIT], begin=offset_commit.begin),
    ServedApi(APIS[ApiKey.OFFSET_DELETE], begin=offset_delete.begin),
    ServedApi(APIS[ApiKey.OFFSET_FETCH], offset_fetch.handle, begin=offset_fetch.begin),
    ServedApi(APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH], offset_for_leader_epoch.handle),
    ServedApi(APIS[ApiKey.SASL_AUTHENTICATE], sasl_authenticate.handle),
    ServedApi(APIS[ApiKey.SASL_HANDSHAKE], sasl_handshake.handle),
    ServedApi(APIS[ApiKey.SYNC_GROUP], begin=sync_group.begin),
    ServedApi(APIS[ApiKey.TXN_OFFSET_COMMIT], begin=txn_offset_commit.begin),
    ServedApi(APIS[ApiKey.UNREGISTER_BROKER], unregister_broker.handle),
    ServedApi(APIS[ApiKey.UPDATE_FEATURES], update_features.handle),
    ServedApi(APIS[ApiKey.WRITE_TXN_MARKERS], write_txn_markers.handle),
)

SERVED: Final[dict[ApiKey, ServedApi]] = {row.api.key: row for row in _TABLE}
