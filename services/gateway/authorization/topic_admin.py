"""What requests need that create, delete and enlarge topics."""

from libs.cluster.acls import AclOperation, ResourceType
from libs.wire.errors import ErrorCode
from libs.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from libs.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from libs.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from libs.wire.primitives import NO_UUID
from services.gateway.authorization.access import (
    MESSAGES,
    TOPIC_DENIED,
    UNKNOWN_TOPIC_ID,
    Access,
    Filtered,
    Outcome,
    Refused,
    with_refusals,
)

TOPIC = ResourceType.TOPIC
FIRST_BY_ID = 6
"""The version of DeleteTopics from which on it names topics by name or by id."""
FIRST_WITH_COUNTS = 5
"""The version of CreateTopics from which on its answer has counts and configs, which need DESCRIBE_CONFIGS."""
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def create_topics(access: Access, request: CreateTopicsRequest, version: int) -> Outcome:
    """CREATE on the cluster, or on each topic. Counts and configs are shown to who may DESCRIBE_CONFIGS on the topic."""
    denied: list[str] = []
    if not access.sees_on_cluster(AclOperation.CREATE):
        request.topics, topics = access.split(AclOperation.CREATE, TOPIC, request.topics, lambda topic: topic.name)
        denied = list(dict.fromkeys(topic.name for topic in topics))
    hidden = set()
    if version >= FIRST_WITH_COUNTS:
        names = {topic.name for topic in request.topics}
        hidden = {name for name in names if not access.sees(AclOperation.DESCRIBE_CONFIGS, TOPIC, name)}
    if not denied and not hidden:
        return None
    refused = [CreatableTopicResult(name, error_code=TOPIC_DENIED, error_message="Authorization failed.") for name in denied]
    if not request.topics:
        return Refused(CreateTopicsResponse(topics=refused))

    async def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in response.topics:
            if result.name in hidden and not result.error_code:
                result.topic_config_error_code, result.configs = TOPIC_DENIED, []
                result.num_partitions = result.replication_factor = -1
        response.topics += refused
        return response

    return Filtered(request, complete)


def create_partitions(access: Access, request: CreatePartitionsRequest, version: int) -> Outcome:
    """ALTER on each topic."""
    request.topics, denied = access.split(AclOperation.ALTER, TOPIC, request.topics, lambda topic: topic.name)
    if not denied:
        return None
    names = dict.fromkeys(topic.name for topic in denied)
    refused = [CreatePartitionsTopicResult(name, TOPIC_DENIED, MESSAGES[TOPIC_DENIED]) for name in names]
    if not request.topics:
        return Refused(CreatePartitionsResponse(results=refused))
    return with_refusals(request, lambda response: response.results, refused)


def delete_topics(access: Access, request: DeleteTopicsRequest, version: int) -> Outcome:
    """DELETE on the cluster, or on each topic. A name that the client may not DESCRIBE is not told."""
    if access.sees_on_cluster(AclOperation.DELETE):
        return None
    refused: list[DeletableTopicResult] = []
    if version >= FIRST_BY_ID:
        request.topics = [topic for topic in request.topics if _may_delete(access, topic, refused)]
    else:
        states = [DeleteTopicState(name) for name in request.topic_names]
        request.topic_names = [state.name or "" for state in states if _may_delete(access, state, refused)]
    if not refused:
        return None
    return with_refusals(request, lambda response: response.responses, refused)


def _may_delete(access: Access, topic: DeleteTopicState, refused: list[DeletableTopicResult]) -> bool:
    by_id = topic.name is None
    name = access.name_of(topic.topic_id) if by_id else topic.name
    if not by_id and topic.topic_id != NO_UUID:
        return True  # the controller refuses it
    if name is None:
        refused.append(DeletableTopicResult(None, topic.topic_id, UNKNOWN_TOPIC_ID, "This server does not host this topic ID."))
        return False
    describes = access.sees(AclOperation.DESCRIBE, TOPIC, name)
    if not by_id and describes and name not in access.image.topics and not access.sees(AclOperation.DELETE, TOPIC, name):
        message = "This server does not host this topic-partition."
        refused.append(DeletableTopicResult(name, topic.topic_id, UNKNOWN_TOPIC_OR_PARTITION, message))
        return False
    if access.may(AclOperation.DELETE, TOPIC, name):
        return True
    shown = name if describes or not by_id else None
    refused.append(DeletableTopicResult(shown, topic.topic_id, TOPIC_DENIED, MESSAGES[TOPIC_DENIED]))
    return False
