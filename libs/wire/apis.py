"""The registry of the APIs that are served: one row an API, which every part of the product reads.

The gateway reads it for codecs and for the versions that it advertises and accepts. Coordinators read it for codecs,
and for the groups or transactional ids of a request. docs/protocol.md and the tests read all of it. A version is added in
`libs/wire/served_versions.py`, which the rows and the generator of codecs read. An API without a row is not served: a request for
it closes the connection.

`libs/wire/api_keys.py` has what holds for every API of Kafka, served or not: its number, and its first flexible version.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final

from libs.lean_dataclass import dataclass
from libs.wire import group_refusals, transaction_refusals
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
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
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
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
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from libs.wire.primitives import MAX_ELEMENTS, ProtocolError, Reader, Writer
from libs.wire.served_versions import SERVED_VERSIONS

GROUP_ELEMENTS_MAX: Final = 100_000
"""The most array elements of one request about groups. Four times as many kept the only thread of a gateway or coordinator busy
for seconds, and it was taken for dead. No batch has room for more offsets than that."""
GROUPS_MAX: Final = 20_000
"""The most groups of one request. A gateway takes 0.15 s to split so many."""

ACLS_MAX: Final = 20_000
CONFIGS_MAX: Final = 20_000
"""Resources and configs in one request about configs; entities and quotas in one about quotas."""
PARTITIONS_MAX: Final = 20_000
"""Topics and partitions in one request about producers. A partition may have thousands of them."""
FEATURES_MAX: Final = 1_000
"""Topics, partitions or features in one request about the controllers; filters of quota entities."""
"""The most ACLs, or filters of ACLs, of one request. Each has its answer."""


class Kind(Enum):
    """Who answers a request."""

    GATEWAY = auto()
    """The gateway: from its image, or by asking the storage nodes that lead."""
    CONTROLLER = auto()
    """The elected controller, which the gateway asks on the client's behalf. The handler sends it there itself: this kind is for
    docs/protocol.md and for the tests."""
    GROUP_OWNER = auto()
    """The coordinator that owns the group's shard; a request about several groups is split by shard."""
    ALL_GROUP_OWNERS = auto()
    """The group coordinators of all shards."""
    TRANSACTION_OWNER = auto()
    """The coordinator that owns the transactional id's shard; a request about several ids is split by shard."""
    ALL_TRANSACTION_OWNERS = auto()
    """The transaction coordinators of all shards."""


def _no_codec(*_: object) -> Any:
    raise AssertionError("Produce and Fetch have codecs of their own, for the gateway's hot path")


def _no_keys(request: Any, version: int) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Versions are inclusive. `shard_keys` gives the groups or transactional ids of a request, in the version given.
    They say which shard decides it.

    `refused` makes the response that has an error for everything in a request, in the version given: the client's answer when no
    coordinator answered. A request with an empty group id is answered with `error_without_group`, where that is not 0.

    `needs_new_id`: a decision may need an id that was never used, for a new member or a deletion.

    What a gateway may do with a request to a shard's owner: `parks`, it may wait for other members. `is_repeatable`, deciding it
    twice changes nothing, so it may be sent again without knowing what became of it. `is_heartbeat`, its client waits for less
    time.

    `before_authentication`: the API is answered on a connection that has not authenticated yet. A test holds that these are
    ApiVersions and SASL's own two, which `services/gateway/requests/authentication.py` names.
    """

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    kind: Kind = Kind.GATEWAY
    read_request: Callable[[Reader, int], Any] = _no_codec
    write_response: Callable[[Writer, Any, int], None] = _no_codec
    advertised_min_version: int = -1  # -1: min_version
    elements_max: int = MAX_ELEMENTS
    shard_keys: Callable[[Any, int], Sequence[str]] = _no_keys
    refused: Callable[[Any, int, int], Any] | None = None
    error_without_group: int = 0
    needs_new_id: bool = False
    parks: bool = False
    is_repeatable: bool = False
    is_heartbeat: bool = False
    before_authentication: bool = False

    def __post_init__(self) -> None:
        if self.advertised_min_version < 0:
            object.__setattr__(self, "advertised_min_version", self.min_version)

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def read(self, body: memoryview, version: int) -> Any:
        """Reads a request without its header. Raises ProtocolError unless the bytes are exactly one request."""
        reader = Reader(body)
        reader.elements_left = min(self.elements_max, GROUP_ELEMENTS_MAX)
        request = self.read_request(reader, version)
        reader.expect_end()
        return request

    def written(self, response: object, version: int) -> bytearray:
        """Writes a response without its header. Raises ValueError for a value that the version cannot express."""
        writer = Writer()
        self.write_response(writer, response, version)
        return writer.buffer

    def refusal(self, version: int, body: bytes, error: int, group_id: str) -> Any:
        """The response that has `error` everywhere. Raises ProtocolError if the bytes are no such request."""
        assert self.refused is not None, f"{self.name} is not refused as a whole"
        request = self.read(memoryview(body), version)
        if not group_id and self.error_without_group:
            error = self.error_without_group  # as the shard's owner would answer
        return self.refused(request, error, version)


def _read_api_versions(reader: Reader, version: int) -> api_versions.ApiVersionsRequest:
    """Reads ApiVersions. The body of an unknown version is not looked at (KIP-511)."""
    if not APIS[ApiKey.API_VERSIONS].serves(version):
        reader.position = reader.end
        return api_versions.ApiVersionsRequest()
    return api_versions.read_request(reader, version)


def _write_api_versions(writer: Writer, response: api_versions.ApiVersionsResponse, version: int) -> None:
    """Writes ApiVersions. A request of an unknown version is answered in version 0 (KIP-511)."""
    api_versions.write_response(writer, response, version if APIS[ApiKey.API_VERSIONS].serves(version) else 0)


def _read_alter_user_scram_credentials(
    reader: Reader, version: int
) -> alter_user_scram_credentials.AlterUserScramCredentialsRequest:
    """Reads AlterUserScramCredentials. librdkafka 2.16 writes the tagged fields at its end twice, and Kafka reads on."""
    request = alter_user_scram_credentials.read_request(reader, version)
    if reader.remaining == 1 and reader.view[reader.position] == 0:
        reader.position += 1
    return request


def _read_describe_acls(reader: Reader, version: int) -> describe_acls.DescribeAclsRequest:
    request = describe_acls.read_request(reader, version)
    _check_acl(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    return request


def _read_create_acls(reader: Reader, version: int) -> create_acls.CreateAclsRequest:
    request = create_acls.read_request(reader, version)
    for acl in request.creations:
        _check_acl(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
    return request


def _read_delete_acls(reader: Reader, version: int) -> delete_acls.DeleteAclsRequest:
    request = delete_acls.read_request(reader, version)
    for acl in request.filters:
        _check_acl(acl.resource_type_filter, acl.pattern_type_filter, acl.operation, acl.permission_type)
    return request


def _check_acl(*codes: int) -> None:
    """As in Kafka, a request that names UNKNOWN (0) is malformed. Codes that nobody knows are not."""
    if 0 in codes:
        raise ProtocolError("an ACL's resource type, pattern type, operation or permission type is UNKNOWN (0)")


def _one_group(request: Any, version: int) -> Sequence[str]:
    return (request.group_id,)


def _fetched_groups(request: offset_fetch.OffsetFetchRequest, version: int) -> Sequence[str]:
    return [group.group_id for group in request.groups] if version >= 8 else (request.group_id,)


def _described_groups(request: describe_groups.DescribeGroupsRequest, version: int) -> Sequence[str]:
    return request.groups


def _deleted_groups(request: delete_groups.DeleteGroupsRequest, version: int) -> Sequence[str]:
    return request.groups_names


def _described_consumer_groups(request: consumer_group_describe.ConsumerGroupDescribeRequest, version: int) -> Sequence[str]:
    return request.group_ids


def _transactional_id(request: Any, version: int) -> Sequence[str]:
    return (request.transactional_id,)


def _added_transactional_ids(request: add_partitions_to_txn.AddPartitionsToTxnRequest, version: int) -> Sequence[str]:
    if version >= transaction_refusals.FIRST_WITH_SEVERAL_TRANSACTIONS:
        return [transaction.transactional_id for transaction in request.transactions]
    return (request.v3_and_below_transactional_id,)


def _described_transactions(request: describe_transactions.DescribeTransactionsRequest, version: int) -> Sequence[str]:
    return request.transactional_ids


INVALID_GROUP_ID: Final = int(ErrorCode.INVALID_GROUP_ID)
INVALID_REQUEST: Final = int(ErrorCode.INVALID_REQUEST)
_CONTROLLER, _OWNER, _TRANSACTION = Kind.CONTROLLER, Kind.GROUP_OWNER, Kind.TRANSACTION_OWNER


def _row(key: ApiKey, name: str, codec: Any, kind: Kind = Kind.GATEWAY, **rest: Any) -> Api:
    return Api(key, name, *SERVED_VERSIONS[key], kind, codec.read_request, codec.write_response, **rest)


# fmt: off
_TABLE: Final = (
    # KAFKA-18659: librdkafka turns compression off for brokers that do not advertise Produce 0.
    Api(ApiKey.PRODUCE, "Produce", *SERVED_VERSIONS[ApiKey.PRODUCE], advertised_min_version=0),
    Api(ApiKey.FETCH, "Fetch", *SERVED_VERSIONS[ApiKey.FETCH]),
    _row(ApiKey.LIST_OFFSETS, "ListOffsets", list_offsets),
    _row(ApiKey.METADATA, "Metadata", metadata),
    _row(ApiKey.OFFSET_COMMIT, "OffsetCommit", offset_commit, _OWNER,
         shard_keys=_one_group, refused=group_refusals.offset_commit_response),
    _row(ApiKey.OFFSET_FETCH, "OffsetFetch", offset_fetch, _OWNER,
         shard_keys=_fetched_groups, refused=group_refusals.offset_fetch_response, is_repeatable=True,
         elements_max=GROUP_ELEMENTS_MAX),
    _row(ApiKey.FIND_COORDINATOR, "FindCoordinator", find_coordinator, elements_max=GROUPS_MAX),
    _row(ApiKey.JOIN_GROUP, "JoinGroup", join_group, _OWNER, shard_keys=_one_group,
         refused=group_refusals.join_group_response, error_without_group=INVALID_GROUP_ID, needs_new_id=True, parks=True),
    _row(ApiKey.HEARTBEAT, "Heartbeat", heartbeat, _OWNER, shard_keys=_one_group,
         refused=group_refusals.heartbeat_response, error_without_group=INVALID_GROUP_ID,
         is_repeatable=True, is_heartbeat=True),  # it only moves a deadline
    _row(ApiKey.LEAVE_GROUP, "LeaveGroup", leave_group, _OWNER, shard_keys=_one_group,
         refused=group_refusals.leave_group_response, error_without_group=INVALID_GROUP_ID),
    _row(ApiKey.SYNC_GROUP, "SyncGroup", sync_group, _OWNER, shard_keys=_one_group,
         refused=group_refusals.sync_group_response, error_without_group=INVALID_GROUP_ID, parks=True),
    _row(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", describe_groups, _OWNER,
         shard_keys=_described_groups, refused=group_refusals.describe_groups_response, is_repeatable=True,
         elements_max=GROUPS_MAX),
    _row(ApiKey.LIST_GROUPS, "ListGroups", list_groups, Kind.ALL_GROUP_OWNERS,
         is_repeatable=True, elements_max=GROUP_ELEMENTS_MAX),
    _row(ApiKey.SASL_HANDSHAKE, "SaslHandshake", sasl_handshake, before_authentication=True),
    Api(ApiKey.API_VERSIONS, "ApiVersions", *SERVED_VERSIONS[ApiKey.API_VERSIONS], Kind.GATEWAY, _read_api_versions,
        _write_api_versions, before_authentication=True),
    _row(ApiKey.CREATE_TOPICS, "CreateTopics", create_topics, _CONTROLLER),
    _row(ApiKey.DELETE_TOPICS, "DeleteTopics", delete_topics, _CONTROLLER),
    _row(ApiKey.DELETE_RECORDS, "DeleteRecords", delete_records),
    _row(ApiKey.INIT_PRODUCER_ID, "InitProducerId", init_producer_id, _TRANSACTION,
         shard_keys=_transactional_id, refused=transaction_refusals.init_producer_id_response),
    _row(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", offset_for_leader_epoch),
    _row(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", add_partitions_to_txn, _TRANSACTION,
         shard_keys=_added_transactional_ids, refused=transaction_refusals.add_partitions_response, elements_max=PARTITIONS_MAX),
    _row(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", add_offsets_to_txn, _TRANSACTION,
         shard_keys=_transactional_id, refused=transaction_refusals.add_offsets_response),
    _row(ApiKey.END_TXN, "EndTxn", end_txn, _TRANSACTION,
         shard_keys=_transactional_id, refused=transaction_refusals.end_response),
    _row(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", write_txn_markers, elements_max=PARTITIONS_MAX),
    _row(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", txn_offset_commit, _OWNER,
         shard_keys=_one_group, refused=transaction_refusals.txn_offset_commit_response, error_without_group=INVALID_GROUP_ID),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", *SERVED_VERSIONS[ApiKey.DESCRIBE_ACLS], Kind.GATEWAY, _read_describe_acls,
        describe_acls.write_response),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", *SERVED_VERSIONS[ApiKey.CREATE_ACLS], _CONTROLLER, _read_create_acls,
        create_acls.write_response, elements_max=ACLS_MAX),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", *SERVED_VERSIONS[ApiKey.DELETE_ACLS], _CONTROLLER, _read_delete_acls,
        delete_acls.write_response, elements_max=ACLS_MAX),
    _row(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", describe_configs, elements_max=CONFIGS_MAX),
    _row(ApiKey.ALTER_CONFIGS, "AlterConfigs", alter_configs, _CONTROLLER, elements_max=CONFIGS_MAX),
    _row(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", alter_replica_log_dirs),
    _row(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", describe_log_dirs),
    _row(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", sasl_authenticate, before_authentication=True),
    _row(ApiKey.CREATE_PARTITIONS, "CreatePartitions", create_partitions, _CONTROLLER),
    _row(ApiKey.DELETE_GROUPS, "DeleteGroups", delete_groups, _OWNER, shard_keys=_deleted_groups,
         refused=group_refusals.delete_groups_response, needs_new_id=True, elements_max=GROUPS_MAX),
    _row(ApiKey.ELECT_LEADERS, "ElectLeaders", elect_leaders, _CONTROLLER),
    _row(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", incremental_alter_configs, _CONTROLLER,
         elements_max=CONFIGS_MAX),
    _row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", alter_partition_reassignments, _CONTROLLER),
    _row(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", list_partition_reassignments),
    _row(ApiKey.OFFSET_DELETE, "OffsetDelete", offset_delete, _OWNER, shard_keys=_one_group,
         refused=group_refusals.offset_delete_response, error_without_group=INVALID_GROUP_ID),
    _row(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", describe_client_quotas, elements_max=FEATURES_MAX),
    _row(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", alter_client_quotas, _CONTROLLER, elements_max=CONFIGS_MAX),
    _row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", describe_user_scram_credentials, _CONTROLLER,
         elements_max=CONFIGS_MAX),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", *SERVED_VERSIONS[ApiKey.ALTER_USER_SCRAM_CREDENTIALS],
        _CONTROLLER, _read_alter_user_scram_credentials, alter_user_scram_credentials.write_response, elements_max=CONFIGS_MAX),
    _row(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", describe_quorum, elements_max=FEATURES_MAX),
    _row(ApiKey.UPDATE_FEATURES, "UpdateFeatures", update_features, _CONTROLLER, elements_max=FEATURES_MAX),
    _row(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", describe_cluster),
    _row(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", describe_producers, elements_max=PARTITIONS_MAX),
    _row(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", describe_transactions, _TRANSACTION,
         shard_keys=_described_transactions, refused=transaction_refusals.describe_response, is_repeatable=True,
         elements_max=GROUPS_MAX),
    _row(ApiKey.LIST_TRANSACTIONS, "ListTransactions", list_transactions, Kind.ALL_TRANSACTION_OWNERS,
         is_repeatable=True, elements_max=FEATURES_MAX),
    _row(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", unregister_broker, _CONTROLLER),
    _row(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", consumer_group_heartbeat, _OWNER, shard_keys=_one_group,
         refused=group_refusals.consumer_group_heartbeat_response, error_without_group=INVALID_REQUEST, needs_new_id=True,
         is_heartbeat=True),
    _row(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", consumer_group_describe, _OWNER,
         shard_keys=_described_consumer_groups, refused=group_refusals.consumer_group_describe_response, is_repeatable=True,
         elements_max=GROUPS_MAX),
    _row(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", list_config_resources),
    _row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", describe_topic_partitions),
)
# fmt: on

APIS: Final[dict[ApiKey, Api]] = {api.key: api for api in _TABLE}

GROUP_APIS: Final[dict[int, Api]] = {int(api.key): api for api in _TABLE if api.kind in (Kind.GROUP_OWNER, Kind.ALL_GROUP_OWNERS)}
"""The APIs that a group coordinator decides, by Kafka's number."""

_OF_TRANSACTIONS: Final = (Kind.TRANSACTION_OWNER, Kind.ALL_TRANSACTION_OWNERS)
TRANSACTION_APIS: Final[dict[int, Api]] = {int(api.key): api for api in _TABLE if api.kind in _OF_TRANSACTIONS}
"""The APIs that a transaction coordinator decides, by Kafka's number."""
