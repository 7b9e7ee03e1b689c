"""What requests about transactions and producer ids need."""

from libs.cluster.acls import AclOperation, ResourceType
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import txn_offset_commit
from libs.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from libs.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from libs.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from libs.wire.messages.end_txn import EndTxnRequest
from libs.wire.messages.init_producer_id import InitProducerIdRequest
from libs.wire.messages.list_transactions import ListTransactionsRequest
from libs.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from libs.wire.transaction_refusals import FIRST_WITH_SEVERAL_TRANSACTIONS, added_partitions
from services.gateway.authorization.access import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    Access,
    Filtered,
    Outcome,
    Refused,
    with_refusals,
)
from services.gateway.authorization.groups import refusal
from services.gateway.authorization.listings import shown

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE

UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
OPERATION_NOT_ATTEMPTED = int(ErrorCode.OPERATION_NOT_ATTEMPTED)


def init_producer_id(access: Access, request: InitProducerIdRequest, version: int) -> Outcome:
    """WRITE on the transactional id. Without one, IDEMPOTENT_WRITE on the cluster, or WRITE on any topic."""
    if request.transactional_id is not None:
        if access.may(WRITE, TRANSACTIONAL_ID, request.transactional_id):
            return None
        return Refused(refusal(ApiKey.INIT_PRODUCER_ID, request, TRANSACTIONAL_ID_DENIED, version))
    if access.may_on_any(WRITE, TOPIC) or access.may_on_cluster(AclOperation.IDEMPOTENT_WRITE):
        return None
    return Refused(refusal(ApiKey.INIT_PRODUCER_ID, request, CLUSTER_DENIED, version))


def end_txn(access: Access, request: EndTxnRequest, version: int) -> Outcome:
    """WRITE on the transactional id."""
    if access.may(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return None
    return Refused(refusal(ApiKey.END_TXN, request, TRANSACTIONAL_ID_DENIED, version))


def add_offsets(access: Access, request: AddOffsetsToTxnRequest, version: int) -> Outcome:
    """WRITE on the transactional id, and READ on the group."""
    if not access.may(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return Refused(refusal(ApiKey.ADD_OFFSETS_TO_TXN, request, TRANSACTIONAL_ID_DENIED, version))
    if not access.may(READ, GROUP, request.group_id):
        return Refused(refusal(ApiKey.ADD_OFFSETS_TO_TXN, request, GROUP_DENIED, version))
    return None


def add_partitions(access: Access, request: AddPartitionsToTxnRequest, version: int) -> Outcome:
    """WRITE on the transactional id and on each topic. From version 4 on, which brokers send in Kafka, CLUSTER_ACTION on the
    cluster. If one topic is denied, no partition is added."""
    if version >= FIRST_WITH_SEVERAL_TRANSACTIONS:
        if access.may_on_cluster(AclOperation.CLUSTER_ACTION):
            return None
        return Refused(AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED))
    if not access.may(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return Refused(refusal(ApiKey.ADD_PARTITIONS_TO_TXN, request, TRANSACTIONAL_ID_DENIED, version))
    names = dict.fromkeys(topic.name for topic in request.v3_and_below_topics)
    denied = {name for name in names if name in INTERNAL_TOPICS or not access.may(WRITE, TOPIC, name)}
    if not denied:
        return None

    def error_of(name: str, index: int) -> int:
        if name in denied:
            return TOPIC_DENIED
        topic = access.image.topics.get(name)
        exists = topic is not None and 0 <= index < topic.partitions
        return OPERATION_NOT_ATTEMPTED if exists else UNKNOWN_TOPIC_OR_PARTITION

    return Refused(added_partitions(request, version, error_of))


def txn_offset_commit_(access: Access, request: txn_offset_commit.TxnOffsetCommitRequest, version: int) -> Outcome:
    """WRITE on the transactional id, and READ on the group and on each topic."""
    if not access.may(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return Refused(refusal(ApiKey.TXN_OFFSET_COMMIT, request, TRANSACTIONAL_ID_DENIED, version))
    if not access.may(READ, GROUP, request.group_id):
        return Refused(refusal(ApiKey.TXN_OFFSET_COMMIT, request, GROUP_DENIED, version))
    request.topics, denied = access.split(READ, TOPIC, request.topics, lambda topic: topic.name)
    if not denied:
        return None
    partition = txn_offset_commit.TxnOffsetCommitResponsePartition
    refused = [
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            topic.name, [partition(p.partition_index, TOPIC_DENIED) for p in topic.partitions]
        )
        for topic in denied
    ]
    if not request.topics:
        return Refused(txn_offset_commit.TxnOffsetCommitResponse(topics=refused))
    return with_refusals(request, lambda response: response.topics, refused)


def describe_transactions(access: Access, request: DescribeTransactionsRequest, version: int) -> Outcome:
    """DESCRIBE on each transactional id. Topics are not shown to who may not DESCRIBE them."""
    request.transactional_ids, denied = access.split(DESCRIBE, TRANSACTIONAL_ID, request.transactional_ids, str)
    refused = [TransactionState(TRANSACTIONAL_ID_DENIED, transactional_id) for transactional_id in denied]

    async def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if access.sees(DESCRIBE, TOPIC, topic.topic)]
        response.transaction_states += refused
        return response

    return Filtered(request, complete)


def list_transactions(access: Access, request: ListTransactionsRequest, version: int) -> Outcome:
    """Those transactional ids are shown that the client may DESCRIBE."""
    return Filtered(request, shown(ApiKey.LIST_TRANSACTIONS, version, lambda name: access.sees(DESCRIBE, TRANSACTIONAL_ID, name)))


def write_txn_markers(access: Access, request: WriteTxnMarkersRequest, version: int) -> Outcome:
    """ALTER or CLUSTER_ACTION on the cluster."""
    if access.sees_on_cluster(AclOperation.ALTER) or access.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return None
    result = WritableTxnMarkerPartitionResult
    markers = []
    for marker in request.markers:
        topics = [
            WritableTxnMarkerTopicResult(topic.name, [result(index, CLUSTER_DENIED) for index in topic.partition_indexes])
            for topic in marker.topics
        ]
        markers.append(WritableTxnMarkerResult(marker.producer_id, topics))
    return Refused(WriteTxnMarkersResponse(markers))
