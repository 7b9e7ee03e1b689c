"""CreateAcls (30), versions 1-3. The controller decides.

v1 pattern types · v2 flexible · v3 users as resources.

A gateway without an authorizer answers SECURITY_DISABLED for each ACL, valid or not, as a broker of Kafka does.

Differences from Kafka: an ACL for ANY or MATCH is refused by itself, with INVALID_REQUEST. A cluster has 20,000 ACLs at most. A
resource name, principal and host that are too long for a key of the metadata store are refused: they may have some 4,000 bytes
together, with escapes. An address is stored in one spelling. ACLs of one request are created in several transactions, of 120
each.
"""

from typing import Final

from libs.rpc.contracts.controller import CREATE_ACLS, Acl, CreateAcls, CreateAclsReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

_MESSAGE = "No Authorizer is configured."


async def handle(gateway: GatewayState, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    if not gateway.has_authorizer:
        return _failed(request, ErrorCode.SECURITY_DISABLED, _MESSAGE)
    if not request.creations:
        return CreateAclsResponse()
    change = CreateAcls(tuple(map(_acl, request.creations)))
    try:
        reply = await ask(gateway, context, CREATE_ACLS, change, CreateAclsReply)
    except RequestFailed as failure:
        return _failed(request, failure.error, failure.message)
    return CreateAclsResponse(results=[AclCreationResult(result.error, result.message) for result in reply.results])


def _acl(asked: AclCreation) -> Acl:
    pattern = asked.resource_type, asked.resource_pattern_type, asked.resource_name
    return Acl(*pattern, asked.principal, asked.host, asked.operation, asked.permission_type)


def _failed(request: CreateAclsRequest, error: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(error, message)] * len(request.creations))


SERVED_API: Final = ServedApi(APIS[ApiKey.CREATE_ACLS], handle)
