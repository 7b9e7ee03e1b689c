"""AlterClientQuotas (49), versions 0-1 (KIP-546). The controller decides.

v1 flexible.

As in Kafka, of two parts of an entity with the same type the last one counts, and an entity that is named twice has one answer.

Differences from Kafka: an entity that is named twice is not changed at all. Quotas are finite numbers. An ip entity is an
address in its usual spelling: names of hosts are not resolved.
"""

from collections.abc import Iterable
from typing import Final

from libs.rpc.contracts.controller import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotas,
    AlterClientQuotasReply,
    EntityQuotas,
    EntityQuotasResult,
    QuotaChange,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask


async def handle(gateway: GatewayState, context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    entities = tuple([_entity_quotas(entry) for entry in request.entries])
    if not entities:
        return AlterClientQuotasResponse()
    change = AlterClientQuotas(entities, request.validate_only)
    try:
        reply = await ask(gateway, context, ALTER_CLIENT_QUOTAS, change, AlterClientQuotasReply)
    except RequestFailed as failure:
        named = dict.fromkeys(each.entity for each in entities)
        return _answer([EntityQuotasResult(entity, failure.error, failure.message) for entity in named])
    return _answer(reply.entities)


def _entity_quotas(entry: RequestEntryData) -> EntityQuotas:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    entity = tuple([(kind, parts[kind]) for kind in sorted(parts)])
    return EntityQuotas(entity, tuple([QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]))


def _answer(results: Iterable[EntityQuotasResult]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(result.error, result.message, [EntityData(kind, name) for kind, name in result.entity])
            for result in results
        ]
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.ALTER_CLIENT_QUOTAS], handle)
