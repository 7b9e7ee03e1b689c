"""What requests about the cluster as a whole need, and their refusals: those of Kafka's requests (`getErrorResponse`)."""

from typing import Any, Final

from libs.cluster.acls import AclOperation
from libs.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from libs.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from services.gateway.authorization.access import CLUSTER_DENIED, MESSAGES, Access, Filtered, Outcome, cluster_operation

_MESSAGE: Final = MESSAGES[CLUSTER_DENIED]


def describe_cluster(access: Access, request: DescribeClusterRequest, version: int) -> Outcome:
    """Nothing. DESCRIBE on the cluster, to be told the authorized operations."""
    if not request.include_cluster_authorized_operations:
        return None

    async def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if not response.error_code:
            response.cluster_authorized_operations = access.operations_on_cluster()
        return response

    return Filtered(request, complete)


def _describe_acls(request: Any, version: int) -> Any:
    return describe_acls.DescribeAclsResponse(error_code=CLUSTER_DENIED, error_message=_MESSAGE)


def _create_acls(request: create_acls.CreateAclsRequest, version: int) -> Any:
    refused = create_acls.AclCreationResult(CLUSTER_DENIED, _MESSAGE)
    return create_acls.CreateAclsResponse(results=[refused] * len(request.creations))


def _delete_acls(request: delete_acls.DeleteAclsRequest, version: int) -> Any:
    refused = delete_acls.DeleteAclsFilterResult(CLUSTER_DENIED, _MESSAGE)
    return delete_acls.DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def _describe_log_dirs(request: Any, version: int) -> Any:
    return describe_log_dirs.DescribeLogDirsResponse(error_code=CLUSTER_DENIED)


def _alter_replica_log_dirs(request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, version: int) -> Any:
    result = alter_replica_log_dirs.AlterReplicaLogDirPartitionResult
    indexes: dict[str, dict[int, None]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    results = [
        alter_replica_log_dirs.AlterReplicaLogDirTopicResult(name, [result(index, CLUSTER_DENIED) for index in of_topic])
        for name, of_topic in indexes.items()
    ]
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=results)


def _elect_leaders(request: elect_leaders.ElectLeadersRequest, version: int) -> Any:
    result = elect_leaders.PartitionResult
    results = [
        elect_leaders.ReplicaElectionResult(topic.topic, [result(index, CLUSTER_DENIED, _MESSAGE) for index in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    error = CLUSTER_DENIED if version >= 1 else 0
    return elect_leaders.ElectLeadersResponse(error_code=error, replica_election_results=results)


def _alter_reassignments(request: alter_partition_reassignments.AlterPartitionReassignmentsRequest, version: int) -> Any:
    result = alter_partition_reassignments.ReassignablePartitionResponse
    topics = [
        alter_partition_reassignments.ReassignableTopicResponse(
            topic.name, [result(partition.partition_index, CLUSTER_DENIED, _MESSAGE) for partition in topic.partitions]
        )
        for topic in request.topics
    ]
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=CLUSTER_DENIED, error_message=_MESSAGE, responses=topics
    )


def _list_reassignments(request: list_partition_reassignments.ListPartitionReassignmentsRequest, version: int) -> Any:
    ongoing = list_partition_reassignments.OngoingPartitionReassignment
    topics = [
        list_partition_reassignments.OngoingTopicReassignment(topic.name, [ongoing(index) for index in topic.partition_indexes])
        for topic in request.topics or ()
    ]
    return list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=CLUSTER_DENIED, error_message=_MESSAGE, topics=topics
    )


def _describe_client_quotas(request: Any, version: int) -> Any:
    return describe_client_quotas.DescribeClientQuotasResponse(error_code=CLUSTER_DENIED, error_message=_MESSAGE, entries=None)


def _alter_client_quotas(request: alter_client_quotas.AlterClientQuotasRequest, version: int) -> Any:
    entries = [alter_client_quotas.ResponseEntryData(CLUSTER_DENIED, _MESSAGE, entry.entity) for entry in request.entries]
    return alter_client_quotas.AlterClientQuotasResponse(entries=entries)


def _describe_users(request: describe_user_scram_credentials.DescribeUserScramCredentialsRequest, version: int) -> Any:
    result = describe_user_scram_credentials.DescribeUserScramCredentialsResult
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=CLUSTER_DENIED,
        error_message=_MESSAGE,
        results=[result(error_code=CLUSTER_DENIED, error_message=_MESSAGE) for _ in request.users or ()],
    )


def _alter_users(request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, version: int) -> Any:
    result = alter_user_scram_credentials.AlterUserScramCredentialsResult
    users = sorted({each.name for each in request.deletions} | {each.name for each in request.upsertions})
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[result(user, CLUSTER_DENIED, _MESSAGE) for user in users]
    )


def _describe_quorum(request: Any, version: int) -> Any:
    return describe_quorum.DescribeQuorumResponse(error_code=CLUSTER_DENIED, error_message=_MESSAGE)


def _update_features(request: Any, version: int) -> Any:
    return update_features.UpdateFeaturesResponse(error_code=CLUSTER_DENIED, error_message=_MESSAGE)


def _unregister_broker(request: Any, version: int) -> Any:
    return unregister_broker.UnregisterBrokerResponse(error_code=CLUSTER_DENIED, error_message=_MESSAGE)


def _list_config_resources(request: Any, version: int) -> Any:
    return list_config_resources.ListConfigResourcesResponse(error_code=CLUSTER_DENIED)


_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
_ALTER_CONFIGS, _DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS

describe_acls_: Final = cluster_operation(_DESCRIBE, _describe_acls)
create_acls_: Final = cluster_operation(_ALTER, _create_acls)
delete_acls_: Final = cluster_operation(_ALTER, _delete_acls)
describe_log_dirs_: Final = cluster_operation(_DESCRIBE, _describe_log_dirs)
alter_replica_log_dirs_: Final = cluster_operation(_ALTER, _alter_replica_log_dirs)
elect_leaders_: Final = cluster_operation(_ALTER, _elect_leaders)
alter_reassignments: Final = cluster_operation(_ALTER, _alter_reassignments)
list_reassignments: Final = cluster_operation(_DESCRIBE, _list_reassignments)
describe_client_quotas_: Final = cluster_operation(_DESCRIBE_CONFIGS, _describe_client_quotas)
alter_client_quotas_: Final = cluster_operation(_ALTER_CONFIGS, _alter_client_quotas)
describe_users: Final = cluster_operation(_DESCRIBE, _describe_users)
alter_users: Final = cluster_operation(_ALTER, _alter_users)
describe_quorum_: Final = cluster_operation(_DESCRIBE, _describe_quorum)
update_features_: Final = cluster_operation(_ALTER, _update_features)
unregister_broker_: Final = cluster_operation(_ALTER, _unregister_broker)
list_config_resources_: Final = cluster_operation(_DESCRIBE_CONFIGS, _list_config_resources)
