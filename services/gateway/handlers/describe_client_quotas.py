"""DescribeClientQuotas (48), versions 0-1 (KIP-546): the entities that fit a filter, with their quotas, from the image.

v1 flexible.

An entity fits if it has a fitting part for each component of the filter. If the filter is strict, it has no other parts. As in
Kafka, a strict filter without components fits nothing.

Differences from Kafka: none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from libs.cluster.client_quotas import CLIENT_ID, IP, USER
from libs.cluster.records import QuotaEntity
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

EXACT, DEFAULT = 0, 1
_MATCH_TYPES: Final = ("EXACT", "DEFAULT", "SPECIFIED")
"""Kafka's match types by number."""

_PART: Final[dict[str, Callable[[QuotaEntity], str | None]]] = {
    CLIENT_ID: lambda entity: entity.client_id,
    IP: lambda entity: entity.ip,
    USER: lambda entity: entity.user,
}
"""The parts of an entity by Kafka's types: a name, "" for the default, None for no such part."""


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


async def handle(
    gateway: GatewayState, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        wanted = _checked(request.components)
    except _Refused as refused:
        return DescribeClientQuotasResponse(error_code=refused.error, error_message=refused.message, entries=None)
    described = gateway.image.client_quotas.items() if wanted or not request.strict else ()
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(_parts(entity), [ValueData(key, value) for key, value in quotas.items()])
            for entity, quotas in described
            if _fits(entity, wanted, request.strict)
        ],
    )


def _checked(components: Sequence[ComponentData]) -> dict[str, ComponentData]:
    """The components by type. Raises _Refused, in Kafka's words and order."""
    wanted: dict[str, ComponentData] = {}
    for component in components:
        kind, match_type = component.entity_type, component.match_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _PART:
            raise _Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if not 0 <= match_type < len(_MATCH_TYPES):
            raise _invalid(f"Unknown match type {match_type}")
        if match_type == EXACT and component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type != EXACT and component.match is not None:
            raise _invalid(f"Request specified MATCH_TYPE_{_MATCH_TYPES[match_type]}, but also specified a match string.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
            "component."
        )
    return wanted


def _fits(entity: QuotaEntity, wanted: Mapping[str, ComponentData], strict: bool) -> bool:
    for kind, component in wanted.items():
        part = _PART[kind](entity)
        if part is None:
            return False
        if component.match_type == EXACT and (part != component.match or not part):
            return False
        if component.match_type == DEFAULT and part:
            return False
    return not strict or len(wanted) == sum(part is not None for part in entity)


def _parts(entity: QuotaEntity) -> list[EntityData]:
    parts = [(kind, part(entity)) for kind, part in _PART.items()]
    return [EntityData(kind, name or None) for kind, name in parts if name is not None]


def _invalid(message: str) -> _Refused:
    return _Refused(ErrorCode.INVALID_REQUEST, message)


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_CLIENT_QUOTAS], handle)
