"""What this gateway serves, in one table. ApiVersions, the connection and docs/protocol.md all read it.

An API is served if it has a row here, and only then advertised. Its handler is the module of its name.
"""

from typing import Final

from libs.wire.api import ApiKey
from libs.wire.messages import alter_configs as alter_configs_wire
from libs.wire.messages import api_versions as api_versions_wire
from libs.wire.messages import create_partitions as create_partitions_wire
from libs.wire.messages import create_topics as create_topics_wire
from libs.wire.messages import delete_topics as delete_topics_wire
from libs.wire.messages import describe_cluster as describe_cluster_wire
from libs.wire.messages import describe_configs as describe_configs_wire
from libs.wire.messages import describe_topic_partitions as describe_topic_partitions_wire
from libs.wire.messages import find_coordinator as find_coordinator_wire
from libs.wire.messages import incremental_alter_configs as incremental_alter_configs_wire
from libs.wire.messages import init_producer_id as init_producer_id_wire
from libs.wire.messages import list_offsets as list_offsets_wire
from libs.wire.messages import metadata as metadata_wire
from services.gateway.api import Api
from services.gateway.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
)
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
        differences="By default records inside a batch are not opened (`record.validation=header`): CRC, counts, sequences and "
        "the batch's newest timestamp are checked. A partition named twice in one request answers INVALID_REQUEST. There are no "
        "transactions yet: a transactional batch answers INVALID_TXN_STATE, from version 11 TRANSACTION_ABORTABLE.",
    ),
    Api(
        ApiKey.FETCH,
        "Fetch",
        4,
        18,
        differences="There are no fetch sessions yet: every answer has session id 0, so that clients go on with full fetches, "
        "and an incremental request answers FETCH_SESSION_ID_NOT_FOUND. A fetch as a replica answers TOPIC_AUTHORIZATION_FAILED: "
        "followers pull by RPC. The bootstrap port passes a fetch on to the leader of its first partition.",
    ),
    Api(
        ApiKey.LIST_OFFSETS,
        "ListOffsets",
        1,
        11,
        list_offsets_wire.read_request,
        list_offsets_wire.write_response,
        list_offsets.handle,
        "The leader is asked wherever it is; Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads.",
    ),
    Api(
        ApiKey.METADATA,
        "Metadata",
        0,
        13,
        metadata_wire.read_request,
        metadata_wire.write_response,
        metadata.handle,
        "A topic that is created on demand is in the same answer if it is there within a second; Kafka first answers "
        "UNKNOWN_TOPIC_OR_PARTITION. Internal topics are not created on demand. The controller id is the broker that was asked.",
    ),
    Api(
        ApiKey.FIND_COORDINATOR,
        "FindCoordinator",
        0,
        6,
        find_coordinator_wire.read_request,
        find_coordinator_wire.write_response,
        find_coordinator.handle,
        "There are no coordinators yet, but librdkafka needs this API before it compresses with lz4. From version 3 on every key "
        "answers UNSUPPORTED_VERSION, which clients take for final. Before, where librdkafka is, groups answer "
        "COORDINATOR_NOT_AVAILABLE (it asks for every consumer that has a group.id), and transactions "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (it asks again for ever otherwise).",
    ),
    Api(
        ApiKey.API_VERSIONS,
        "ApiVersions",
        api_versions.MIN_VERSION,
        api_versions.MAX_VERSION,
        api_versions.read_request,
        api_versions.write_response,
        _answer_api_versions,
        "No features are listed: metadata.version is KRaft's own, and groups and transactions are not served yet.",
    ),
    Api(
        ApiKey.CREATE_TOPICS,
        "CreateTopics",
        2,
        7,
        create_topics_wire.read_request,
        create_topics_wire.write_response,
        create_topics.handle,
        "A replication factor above 1 answers INVALID_REPLICATION_FACTOR until there is replication. A config that Kafka takes "
        "and Penstock does not act on yet answers INVALID_CONFIG. Too many partitions answer POLICY_VIOLATION.",
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
        ApiKey.INIT_PRODUCER_ID,
        "InitProducerId",
        0,
        5,
        init_producer_id_wire.read_request,
        init_producer_id_wire.write_response,
        init_producer_id.handle,
        "There are no transactions yet: a transactional id answers COORDINATOR_NOT_AVAILABLE.",
    ),
    Api(
        ApiKey.DESCRIBE_CONFIGS,
        "DescribeConfigs",
        1,
        4,
        describe_configs_wire.read_request,
        describe_configs_wire.write_response,
        describe_configs.handle,
        "The broker configs are those that mean something here; `durability` and `record.validation` are Penstock's own. Broker "
        "loggers, client metrics and groups answer INVALID_REQUEST. The bootstrap port describes any broker.",
    ),
    Api(
        ApiKey.ALTER_CONFIGS,
        "AlterConfigs",
        0,
        2,
        alter_configs_wire.read_request,
        alter_configs_wire.write_response,
        alter_configs.handle,
        "As for IncrementalAlterConfigs.",
    ),
    Api(
        ApiKey.CREATE_PARTITIONS,
        "CreatePartitions",
        0,
        3,
        create_partitions_wire.read_request,
        create_partitions_wire.write_response,
        create_partitions.handle,
        "Too many partitions answer POLICY_VIOLATION.",
    ),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "IncrementalAlterConfigs",
        0,
        1,
        incremental_alter_configs_wire.read_request,
        incremental_alter_configs_wire.write_response,
        incremental_alter_configs.handle,
        "A config that Kafka takes and Penstock does not act on yet answers INVALID_CONFIG. What decides for the whole cluster "
        "(num.partitions, auto.create.topics.enable, …) cannot be set for one broker. Broker loggers, client metrics and groups "
        "answer INVALID_REQUEST.",
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
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "DescribeTopicPartitions",
        0,
        0,
        describe_topic_partitions_wire.read_request,
        describe_topic_partitions_wire.write_response,
        describe_topic_partitions.handle,
        "Eligible leader replicas are always empty, since the ISR of a partition never is.",
    ),
)

APIS: Final[dict[ApiKey, Api]] = {api.key: api for api in _TABLE}
