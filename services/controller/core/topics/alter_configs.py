"""Config changes, and the answers for refused ones. All changes of a resource are made, or none."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from libs.cluster.configs.connection_table import check_connection_limits
from libs.cluster.configs.definitions import (
    BROKER,
    BROKER_CONFIGS,
    GROUP,
    GROUP_CONFIGS,
    KINDS,
    TOPIC,
    TOPIC_CONFIGS,
    ConfigDef,
    ConfigError,
    ConfigType,
    NotSupportedYet,
    RetiredConfig,
    UnknownConfig,
    validate_broker,
    validate_group,
    validate_together,
    validate_topic,
)
from libs.cluster.configs.group_settings import check_coordinators, check_group
from libs.cluster.configs.resolve import own_value
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import AlterConfigs, ConfigChange, ConfigResource, ConfigResult
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.reassignment.decommissioning import DECOMMISSION, leaving, too_few_without
from services.controller.core.topics.internal_topic_configs import kept_synced
from services.controller.core.topics.topic_names import name_problem, shown

SET, DELETE, APPEND, SUBTRACT = range(4)

TABLES: Final[dict[int, Mapping[str, ConfigDef]]] = {TOPIC: TOPIC_CONFIGS, BROKER: BROKER_CONFIGS, GROUP: GROUP_CONFIGS}


@dataclass(frozen=True, slots=True)
class Alteration:
    """One resource's answer. If it changes, also all of its overrides after the change."""

    resource: ConfigResource
    result: ConfigResult
    values: dict[str, str] | None

    @property
    def kind(self) -> str:
        return KINDS[self.resource.resource_type]

    def changes(self, image: ClusterImage) -> bool:
        """Whether anything has to be written."""
        return self.values is not None and self.values != image.overrides(self.kind, self.resource.name)


def alter_configs(image: ClusterImage, request: AlterConfigs) -> list[Alteration]:
    """One alteration per resource, in the order of the request."""
    mentions = Counter((resource.resource_type, resource.name) for resource in request.resources)
    decided: dict[tuple[int, str], Alteration] = {}
    decommissioning = leaving(image)
    for resource in request.resources:
        key = (resource.resource_type, resource.name)
        try:
            if mentions[key] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            values = _altered(image, resource)
            if resource.resource_type == BROKER and _decommissions(values):
                decommissioning = _checked_to_go(image, resource.name, decommissioning)
        except Refused as refusal:
            decided[key] = Alteration(resource, ConfigResult(*key, refusal.error, refusal.message), None)
        else:
            decided[key] = Alteration(resource, ConfigResult(*key, ErrorCode.NONE), values)
    return list(decided.values())


def _altered(image: ClusterImage, resource: ConfigResource) -> dict[str, str]:
    if any(times > 1 for times in Counter(change.name for change in resource.changes).values()):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in resource.changes if change.value is None and change.operation != DELETE]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {shown(','.join(nulls))}")
    _check_name(image, resource)
    values = {} if resource.replace else dict(image.overrides(KINDS[resource.resource_type], resource.name))
    for change in resource.changes:
        _apply(resource, change, values)
    try:
        _check_together(image, resource, values)
        return kept_synced(resource.name, values) if resource.resource_type == TOPIC else values
    except ConfigError as error:
        raise _broken(resource, error) from None


def _check_name(image: ClusterImage, resource: ConfigResource) -> None:
    match resource.resource_type:
        case 2:
            _check_topic(image, resource.name)
        case 4:
            _check_broker(image, resource.name)
        case 32:
            if not resource.name:
                raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        case other:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {other}.")


def _check_together(image: ClusterImage, resource: ConfigResource, values: Mapping[str, str]) -> None:
    """Raises ConfigError."""
    match resource.resource_type:
        case 2:
            validate_together(values)
        case 4 if not resource.name:
            check_coordinators(values)
            check_connection_limits(values)
        case 4:
            check_connection_limits({**image.overrides(KINDS[BROKER], ""), **values})
        case 32:
            check_group(image, values)


def _decommissions(values: Mapping[str, str]) -> bool:
    value = own_value(BROKER_CONFIGS[DECOMMISSION], values)
    return value is not None and BROKER_CONFIGS[DECOMMISSION].parse(value) is True


def _checked_to_go(image: ClusterImage, name: str, decommissioning: frozenset[int]) -> frozenset[int]:
    """The nodes to be emptied, with this one. Raises Refused if it is plain that they cannot all be emptied."""
    if int(name) in decommissioning:
        return decommissioning
    together = decommissioning | {int(name)}
    if (problem := too_few_without(image, together)) is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker {name} cannot be decommissioned: {problem}")
    return together


def _check_topic(image: ClusterImage, name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (problem := name_problem(name)) is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in image.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker(image: ClusterImage, name: str) -> None:
    if not name:
        return  # the cluster-wide default
    if not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise Refused(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    node_id = int(name)
    if str(node_id) != name or (node_id not in image.nodes and node_id not in image.members(STORAGE)):
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _apply(resource: ConfigResource, change: ConfigChange, values: dict[str, str]) -> None:
    match change.operation:
        case 0:
            assert change.value is not None  # refused above
            value = change.value
        case 1:
            values.pop(change.name, None)  # as in Kafka, a config that is not set, not known or fixed is no error
            return
        case 2 | 3:
            value = _edited_list(resource, change, values.get(change.name))
        case other:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown config operation {other}")
    try:
        match resource.resource_type:
            case 2:
                validate_topic(change.name, value)
            case 4:
                validate_broker(change.name, value, per_broker=bool(resource.name))
            case _:
                validate_group(change.name, value)
    except (UnknownConfig, RetiredConfig, NotSupportedYet) as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
    except ConfigError as error:
        raise _broken(resource, error) from None
    values[change.name] = value


def _broken(resource: ConfigResource, error: ConfigError) -> Refused:
    # KAFKA-13609: a broker's bad value is answered with INVALID_REQUEST, a topic's or a group's with INVALID_CONFIG.
    code = ErrorCode.INVALID_REQUEST if resource.resource_type == BROKER else ErrorCode.INVALID_CONFIG
    return Refused(code, str(error))


def _edited_list(resource: ConfigResource, change: ConfigChange, current: str | None) -> str:
    """The list after APPEND or SUBTRACT (KIP-339). As in Kafka, a config without an override starts from the static default."""
    config = TABLES[resource.resource_type].get(change.name)
    if config is None or config.type is not ConfigType.LIST:
        verb = "APPEND" if change.operation == APPEND else "SUBTRACT"
        raise Refused(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {shown(change.name)} because its type is not LIST.")
    text = current if current is not None else config.default
    items = [item.strip() for item in text.split(",")] if text else []
    assert change.value is not None  # refused above
    for item in (each.strip() for each in change.value.split(",")):
        if change.operation == APPEND and item not in items:
            items.append(item)
        elif change.operation == SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)
