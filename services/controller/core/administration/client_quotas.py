"""AlterClientQuotas: changes of client quotas, and the answers for refused ones. All changes of an entity are made, or none."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from libs.cluster.client_quotas import CLIENT_ID, CLIENT_KEYS, CONTROLLER_MUTATION, IP, IP_KEY, REQUEST, USER
from libs.cluster.configs.connection_table import usual_address
from libs.cluster.image import ClusterImage
from libs.cluster.records import QuotaEntity
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import EntityQuotas, EntityQuotasResult, QuotaChange, QuotaEntityParts
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.topics.topic_names import shown

_DOUBLES: Final = (CLIENT_KEYS[REQUEST], CLIENT_KEYS[CONTROLLER_MUTATION])
"""The quotas that may be fractions."""
_LARGEST: Final[Mapping[str, tuple[float, str]]] = {
    **dict.fromkeys(CLIENT_KEYS, (2.0**63, "LONG")),
    **dict.fromkeys(_DOUBLES, (1.7976931348623157e308, "DOUBLE")),
    IP_KEY: (2.0**31 - 1, "INT"),
}
"""The largest value of each quota, and the name of its type in Kafka."""
_FRACTION_MAX: Final = 1e-6
"""A larger fraction of a whole number is refused, as in Kafka."""


def largest(key: str) -> float:
    """The largest value of a quota. Infinity for an unknown one."""
    return _LARGEST[key][0] if key in _LARGEST else inf


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """One entity's answer. If its quotas are as they should be, also the entity and all of its quotas after the change."""

    result: EntityQuotasResult
    entity: QuotaEntity | None = None
    values: dict[str, float] | None = None

    def changes(self, image: ClusterImage) -> bool:
        """Whether anything has to be written."""
        return self.entity is not None and self.values != image.client_quotas.get(self.entity, {})


def alter_client_quotas(image: ClusterImage, entities: Sequence[EntityQuotas]) -> list[QuotaAlteration]:
    """One alteration per entity, in the order of the request."""
    mentions = Counter(each.entity for each in entities)
    decided: dict[QuotaEntityParts, QuotaAlteration] = {}
    for each in entities:
        try:
            if mentions[each.entity] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each quota entity must appear at most once.")
            entity = _checked(each.entity)
            values = _altered(image, entity, each.changes)
        except Refused as refusal:
            decided[each.entity] = QuotaAlteration(EntityQuotasResult(each.entity, refusal.error, refusal.message))
        else:
            decided[each.entity] = QuotaAlteration(EntityQuotasResult(each.entity, ErrorCode.NONE), entity, values)
    return list(decided.values())


def _checked(parts: QuotaEntityParts) -> QuotaEntity:
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise _refused(f"Unhandled client quota entity type: {shown(kind)}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    names = {kind: "" if name is None else name for kind, name in parts}
    if not names:
        raise _refused("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            raise _refused("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        _check_address(names[IP])
    return QuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def _check_address(ip: str) -> None:
    if not ip:
        return  # the default
    spelling = usual_address(ip)
    if spelling is None:
        raise _refused(f"{shown(ip)} is not a valid IP address. Names of hosts are not resolved.")
    if spelling != ip:
        # One address has one entity. Clients' addresses are looked up in this spelling.
        raise _refused(f"{shown(ip)} is an IP address, and quotas are looked up by its usual spelling {spelling}.")


def _altered(image: ClusterImage, entity: QuotaEntity, changes: Sequence[QuotaChange]) -> dict[str, float]:
    keys = Counter(change.key for change in changes)
    for key, times in keys.items():
        if times > 1:
            raise _refused(f"Duplicate quota key {shown(key)}: no quota of this entity is updated.")
    allowed = (IP_KEY,) if entity.ip is not None else CLIENT_KEYS
    values = dict(image.client_quotas.get(entity, {}))
    for change in changes:
        if change.value is None:
            values.pop(change.key, None)  # as in Kafka, a quota that is not set or not known is no error
            continue
        if change.key not in allowed:
            raise _refused(f"Invalid configuration key {shown(change.key)}")
        _check_value(change.key, change.value)
        values[change.key] = change.value
    return values


def _check_value(key: str, value: float) -> None:
    most, kind = _LARGEST[key]
    if not value > 0:  # nor is a NaN
        raise _refused(f"Quota {key} must be greater than 0")
    if value > most:
        raise _refused(f"Proposed value for {key} is too large for a {kind}.")
    if key not in _DOUBLES and value % 1 > _FRACTION_MAX:
        raise _refused(f"{key} cannot be a fractional value.")
    if key == IP_KEY and value < 1:
        raise _refused(f"{key} cannot be below 1: an address could hardly connect to change it back.")


def _refused(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
