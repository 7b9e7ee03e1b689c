"""The log lines of what clients changed, with who asked for it.

Only what was done is logged: neither refusals nor requests that validate only. One request has `LINES_MAX` lines at most.
"""

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from libs.cluster.acls import AclOperation, AclPermission, PatternType, ResourceType, canonical_host
from libs.cluster.configs.broker_names import broker_config
from libs.cluster.configs.definitions import BROKER
from libs.cluster.keys import DEFAULT_ENTITY
from libs.cluster.scram_credentials import MECHANISMS
from libs.rpc.contracts.controller import (
    PREFERRED,
    Acl,
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlterConfigs,
    AlterConfigsReply,
    AlterReassignments,
    AlterReassignmentsReply,
    AlterScramCredentials,
    AlterScramCredentialsReply,
    ConfigChange,
    CreateAcls,
    CreateAclsReply,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteAclsReply,
    DeleteTopics,
    ElectLeaders,
    ElectLeadersReply,
    TopicResult,
    TopicsReply,
    UnregisterBroker,
    UnregisterBrokerReply,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from libs.telemetry.logs import fields

log = logging.getLogger("controller")

LINES_MAX: Final = 50
RESOURCES: Final = {2: "topic", 4: "broker", 32: "group"}
OPERATIONS: Final = ("=", "", "+=", "-=")
"""Of ConfigChange, by number: set, delete, append, subtract."""


class Done(NamedTuple):
    event: str
    details: dict[str, object]


def log_changes(request: object, reply: object) -> None:
    """Logs what a request that was carried out has changed. Requests of other services than gateways change nothing here."""
    asked_by = getattr(request, "asked_by", "") or "unknown"
    changes = list(_changes(request, reply))
    for change in changes[:LINES_MAX]:
        log.info(change.event, extra=fields(**change.details, asked_by=asked_by))
    if len(changes) > LINES_MAX:
        log.info("further changes of the same request", extra=fields(count=len(changes) - LINES_MAX, asked_by=asked_by))


def _changes(request: object, reply: object) -> Iterator[Done]:
    match request, reply:
        case CreateTopics(validate_only=False) | CreateInternalTopic(), TopicsReply():
            for topic in _succeeded(reply):
                if topic.replication_factor > 0:  # an internal topic that was there is a success too
                    counts = {"partitions": topic.partitions, "replication_factor": topic.replication_factor}
                    yield Done("topic created", {"topic": topic.name, "topic_id": topic.topic_id.hex(), **counts})
        case DeleteTopics(), TopicsReply():
            for topic in _succeeded(reply):
                yield Done("topic deleted", {"topic": topic.name, "topic_id": topic.topic_id.hex()})
        case CreatePartitions(validate_only=False), TopicsReply():
            counts = {topic.name: topic.count for topic in request.topics}
            for topic in _succeeded(reply):
                yield Done("partitions added", {"topic": topic.name, "partitions": counts[topic.name]})
        case AlterConfigs(validate_only=False), AlterConfigsReply():
            altered = {(result.resource_type, result.name) for result in reply.resources if not result.error}
            for resource in request.resources:
                if (resource.resource_type, resource.name) in altered:
                    kind = RESOURCES.get(resource.resource_type, str(resource.resource_type))
                    configs = [_shown(resource.resource_type, change) for change in resource.changes]
                    details: dict[str, object] = {kind: resource.name or "(all)", "configs": configs}
                    yield Done("configs replaced" if resource.replace else "configs changed", details)
        case AlterClientQuotas(validate_only=False), AlterClientQuotasReply():
            changed = {result.entity for result in reply.entities if not result.error}
            for each in request.entities:
                if each.entity in changed:
                    entity = {kind: DEFAULT_ENTITY if name is None else name for kind, name in each.entity}
                    quotas = [f"-{q.key}" if q.value is None else f"{q.key}={q.value:.15g}" for q in each.changes]
                    yield Done("quotas changed", {"entity": entity, "quotas": quotas})
        case AlterScramCredentials(), AlterScramCredentialsReply():
            done = {result.user for result in reply.users if not result.error}
            for deletion in request.deletions:
                if deletion.user in done:
                    yield Done("credential deleted", _credential(deletion.user, deletion.mechanism))
            for upsertion in request.upsertions:
                if upsertion.user in done:
                    details = _credential(upsertion.user, upsertion.mechanism)
                    yield Done("credential set", {**details, "iterations": upsertion.iterations})
        case CreateAcls(), CreateAclsReply():
            for acl, result in zip(request.acls, reply.results, strict=True):
                if result.created:
                    yield Done("acl created", _acl(acl))
        case DeleteAcls(), DeleteAclsReply():
            for acl in dict.fromkeys([acl for deleted in reply.filters for acl in deleted.acls]):
                yield Done("acl deleted", _acl(acl))
        case AlterReassignments(), AlterReassignmentsReply():
            moving = {(result.topic, result.partition) for result in reply.partitions if not result.error}
            for wanted in request.partitions:
                if (wanted.topic, wanted.partition) in moving:
                    partition = f"{wanted.topic}-{wanted.partition}"
                    if wanted.replicas is None:
                        yield Done("reassignment cancelled", {"partition": partition})
                    else:
                        yield Done("reassignment begun", {"partition": partition, "replicas": list(wanted.replicas)})
        case ElectLeaders(), ElectLeadersReply():
            election = "preferred" if request.election_type == PREFERRED else "unclean"
            for elected in reply.partitions:
                if not elected.error:
                    yield Done("leader elected", {"partition": f"{elected.topic}-{elected.partition}", "election": election})
        case UnregisterBroker(), UnregisterBrokerReply():
            yield Done("broker unregistered", {"node": request.node_id})
        case UpdateFeatures(), UpdateFeaturesReply():
            for name, level in reply.changed:
                yield Done("feature updated", {"feature": name, "level": level})


def _credential(user: str, mechanism: int) -> dict[str, object]:
    return {"user": user, "mechanism": MECHANISMS[mechanism]}


def _acl(acl: Acl) -> dict[str, object]:
    return {
        "resource": f"{ResourceType(acl.resource_type).name}:{PatternType(acl.pattern_type).name}:{acl.name}",
        "principal": acl.principal,
        "host": canonical_host(acl.host),
        "operation": AclOperation(acl.operation).name,
        "permission": AclPermission(acl.permission).name,
    }


def _succeeded(reply: TopicsReply) -> list[TopicResult]:
    return [topic for topic in reply.topics if not topic.error]


def _shown(resource_type: int, change: ConfigChange) -> str:
    """A value that DescribeConfigs hides is hidden here too, such as that of a broker config which nobody knows."""
    if change.operation == 1 or change.value is None:
        return f"-{change.name}"
    hidden = resource_type == BROKER and broker_config(change.name).sensitive
    return f"{change.name}{OPERATIONS[change.operation]}{'[hidden]' if hidden else change.value}"
