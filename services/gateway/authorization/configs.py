"""What requests about configs need: an operation on the topic, on the group, or on the cluster for brokers and their loggers."""

from collections.abc import Callable
from typing import Any, Final

from libs.cluster.acls import AclOperation, ResourceType
from libs.wire.messages import alter_configs, describe_configs, incremental_alter_configs
from services.gateway.authorization.access import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    MESSAGES,
    TOPIC_DENIED,
    Access,
    Check,
    Outcome,
    with_refusals,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Kafka's numbers of resource types in requests about configs, which are not those of ACLs."""

_ON_CLUSTER: Final = (BROKER, BROKER_LOGGER, CLIENT_METRICS)


def _error(access: Access, operation: AclOperation, kind: int, name: str) -> int:
    """The error of a resource, 0 if its client may. A resource of another type is refused later, as unknown."""
    if kind in _ON_CLUSTER:
        return 0 if access.may_on_cluster(operation) else CLUSTER_DENIED
    if kind == TOPIC:
        return 0 if access.may(operation, ResourceType.TOPIC, name) else TOPIC_DENIED
    if kind == GROUP:
        return 0 if access.may(operation, ResourceType.GROUP, name) else GROUP_DENIED
    return 0


def _check(
    operation: AclOperation, results_of: Callable[[Any], list[Any]], result: Callable[[int, str | None, int, str], Any]
) -> Check:
    def check(access: Access, request: Any, version: int) -> Outcome:
        allowed, refused = [], []
        errors: dict[tuple[int, str], int] = {}
        for resource in request.resources:
            key = resource.resource_type, resource.resource_name
            if key not in errors:
                errors[key] = _error(access, operation, *key)
                if errors[key]:
                    refused.append(result(errors[key], MESSAGES[errors[key]], *key))
            if not errors[key]:
                allowed.append(resource)
        if not refused:
            return None
        request.resources = allowed
        return with_refusals(request, results_of, refused)

    return check


describe: Final = _check(AclOperation.DESCRIBE_CONFIGS, lambda response: response.results, describe_configs.DescribeConfigsResult)
alter: Final = _check(AclOperation.ALTER_CONFIGS, lambda response: response.responses, alter_configs.AlterConfigsResourceResponse)
alter_incrementally: Final = _check(
    AclOperation.ALTER_CONFIGS, lambda response: response.responses, incremental_alter_configs.AlterConfigsResourceResponse
)
