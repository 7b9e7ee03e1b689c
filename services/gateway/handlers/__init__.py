"""What this gateway serves, in one table (its rows about groups: group_table.py). ApiVersions, the connection and
docs/protocol.md all read it.

Where an API is not as Kafka's stands in `services/gateway/differences.py`.

An API is served if it has a row here, and only then advertised. Its handler is the module of its name.
"""

from typing import Final

from libs.rpc.contracts.groups import GROUPS_MAX
from libs.wire.api import ApiKey
from libs.wire.messages import alter_configs as alter_configs_wire
from libs.wire.messages import alter_partition_reassignments as alter_partition_reassignments_wire
from libs.wire.messages import alter_replica_log_dirs as alter_replica_log_dirs_wire
from libs.wire.messages import api_versions as api_versions_wire
from libs.wire.messages import create_partitions as create_partitions_wire
from libs.wire.messages import create_topics as create_topics_wire
from libs.wire.messages import delete_records as delete_records_wire
from libs.wire.messages import delete_topics as delete_topics_wire
from libs.wire.messages import describe_cluster as describe_cluster_wire
from libs.wire.messages import describe_configs as describe_configs_wire
from libs.wire.messages import describe_log_dirs as describe_log_dirs_wire
from libs.wire.messages import describe_topic_partitions as describe_topic_partitions_wire
from libs.wire.messages import elect_leaders as elect_leaders_wire
from libs.wire.messages import find_coordinator as find_coordinator_wire
from libs.wire.messages import incremental_alter_configs as incremental_alter_configs_wire
from libs.wire.messages import init_producer_id as init_producer_id_wire
from libs.wire.messages import list_config_resources as list_config_resources_wire
from libs.wire.messages import list_offsets as list_offsets_wire
from libs.wire.messages import list_partition_reassignments as list_partition_reassignments_wire
from libs.wire.messages import metadata as metadata_wire
from libs.wire.messages import offset_for_leader_epoch as offset_for_leader_epoch_wire
from libs.wire.messages import unregister_broker as unregister_broker_wire
from services.gateway.api import Api
from services.gateway.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    unregister_broker,
)
from services.gateway.handlers.group_table import GROUP_TABLE
from services.gateway.state import GatewayState, RequestContext

__all__ = ["APIS", "Api"]


async def _answer_api_versions(
    gateway: GatewayState, context: RequestContext, request: api_versions_wire.ApiVersionsRequest
) -> api_versions_wire.ApiVersionsResponse:
    # The one handler that must know the table itself.
    return api_versions.answer(context, request, APIS.values())


_TABLE: Final = (
    Api(
        ApiKey.PRODUCE,
        "Produce",
        3,
        13,
        advertised_min_version=0,  # KAFKA-18659: librdkafka turns compression off for brokers without version 0
    ),
    Api(
        ApiKey.FETCH,
        "Fetch",
        4,
        18,
    ),
    Api(
        ApiKey.LIST_OFFSETS,
        "ListOffsets",
        1,
        11,
        list_offsets_wire.read_request,
        list_offsets_wire.write_response,
        list_offsets.handle,
        at_once=list_offsets.at_once,
    ),
    Api(
        ApiKey.METADATA,
        "Metadata",
        0,
        13,
        metadata_wire.read_request,
        metadata_wire.write_response,
        metadata.handle,
    ),
    Api(
        ApiKey.FIND_COORDINATOR,
        "FindCoordinator",
        0,
        6,
        find_coordinator_wire.read_request,
        find_coordinator_wire.write_response,
        find_coordinator.handle,
        elements_max=GROUPS_MAX,
    ),
    Api(
        ApiKey.API_VERSIONS,
        "ApiVersions",
        api_versions.MIN_VERSION,
        api_versions.MAX_VERSION,
        api_versions.read_request,
        api_versions.write_response,
        _answer_api_versions,
    ),
    Api(
        ApiKey.CREATE_TOPICS,
        "CreateTopics",
        2,
        7,
        create_topics_wire.read_request,
        create_topics_wire.write_response,
        create_topics.handle,
    ),
    Api(
        ApiKey.DELETE_TOPICS,
        "DeleteTopics",
        1,
        6,
        delete_topics_wire.read_request,
        delete_topics_wire.write_response,
        delete_topics.handle,
    ),
    Api(
        ApiKey.DELETE_RECORDS,
        "DeleteRecords",
        0,
        2,
        delete_records_wire.read_request,
        delete_records_wire.write_response,
        delete_records.handle,
    ),
    Api(
        ApiKey.INIT_PRODUCER_ID,
        "InitProducerId",
        0,
        5,
        init_producer_id_wire.read_request,
        init_producer_id_wire.write_response,
        init_producer_id.handle,
    ),
    Api(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        "OffsetForLeaderEpoch",
        2,
        4,
        offset_for_leader_epoch_wire.read_request,
        offset_for_leader_epoch_wire.write_response,
        offset_for_leader_epoch.handle,
    ),
    Api(
        ApiKey.DESCRIBE_CONFIGS,
        "DescribeConfigs",
        1,
        4,
        describe_configs_wire.read_request,
        describe_configs_wire.write_response,
        describe_configs.handle,
    ),
    Api(
        ApiKey.ALTER_CONFIGS,
        "AlterConfigs",
        0,
        2,
        alter_configs_wire.read_request,
        alter_configs_wire.write_response,
        alter_configs.handle,
    ),
    Api(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        "AlterReplicaLogDirs",
        1,
        2,
        alter_replica_log_dirs_wire.read_request,
        alter_replica_log_dirs_wire.write_response,
        alter_replica_log_dirs.handle,
    ),
    Api(
        ApiKey.DESCRIBE_LOG_DIRS,
        "DescribeLogDirs",
        1,
        4,
        describe_log_dirs_wire.read_request,
        describe_log_dirs_wire.write_response,
        describe_log_dirs.handle,
    ),
    Api(
        ApiKey.CREATE_PARTITIONS,
        "CreatePartitions",
        0,
        3,
        create_partitions_wire.read_request,
        create_partitions_wire.write_response,
        create_partitions.handle,
    ),
    Api(
        ApiKey.ELECT_LEADERS,
        "ElectLeaders",
        0,
        2,
        elect_leaders_wire.read_request,
        elect_leaders_wire.write_response,
        elect_leaders.handle,
    ),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "IncrementalAlterConfigs",
        0,
        1,
        incremental_alter_configs_wire.read_request,
        incremental_alter_configs_wire.write_response,
        incremental_alter_configs.handle,
    ),
    Api(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "AlterPartitionReassignments",
        0,
        1,
        alter_partition_reassignments_wire.read_request,
        alter_partition_reassignments_wire.write_response,
        alter_partition_reassignments.handle,
    ),
    Api(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "ListPartitionReassignments",
        0,
        0,
        list_partition_reassignments_wire.read_request,
        list_partition_reassignments_wire.write_response,
        list_partition_reassignments.handle,
    ),
    Api(
        ApiKey.DESCRIBE_CLUSTER,
        "DescribeCluster",
        0,
        2,
        describe_cluster_wire.read_request,
        describe_cluster_wire.write_response,
        describe_cluster.handle,
    ),
    Api(
        ApiKey.UNREGISTER_BROKER,
        "UnregisterBroker",
        0,
        0,
        unregister_broker_wire.read_request,
        unregister_broker_wire.write_response,
        unregister_broker.handle,
    ),
    Api(
        ApiKey.LIST_CONFIG_RESOURCES,
        "ListConfigResources",
        0,
        1,
        list_config_resources_wire.read_request,
        list_config_resources_wire.write_response,
        list_config_resources.handle,
    ),
    Api(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "DescribeTopicPartitions",
        0,
        0,
        describe_topic_partitions_wire.read_request,
        describe_topic_partitions_wire.write_response,
        describe_topic_partitions.handle,
    ),
)

APIS: Final[dict[ApiKey, Api]] = {api.key: api for api in (*_TABLE, *GROUP_TABLE)}
