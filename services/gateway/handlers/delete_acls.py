"""DeleteAcls (31), versions 1-3. The controller decides.

v1 pattern types · v2 flexible · v3 users as resources.

A gateway without an authorizer answers SECURITY_DISABLED for each filter, as a broker of Kafka does.

Differences from Kafka: the filters of one request are compared with ACLs two million times at most. A filter that can match only
one ACL counts once. An address has one spelling, in filters too. ACLs are deleted in several transactions, of 120 each: if not
all of a filter's could be, its error is followed by those that were.
"""

from typing import Final

from libs.rpc.contracts.controller import DELETE_ACLS, Acl, DeleteAcls, DeleteAclsReply, FilteredAcls
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

_MESSAGE = "No Authorizer is configured."


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    if not gateway.has_authorizer:
        return _failed(request, ErrorCode.SECURITY_DISABLED, _MESSAGE)
    if not request.filters:
        return DeleteAclsResponse()
    change = DeleteAcls(tuple(map(_filter, request.filters)))
    try:
        reply = await ask(gateway, context, DELETE_ACLS, change, DeleteAclsReply)
    except RequestFailed as failure:
        return _failed(request, failure.error, failure.message)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(each.error, each.message, list(map(_deleted, each.acls))) for each in reply.filters
        ]
    )


def _filter(asked: DeleteAclsFilter) -> FilteredAcls:
    pattern = asked.resource_type_filter, asked.pattern_type_filter, asked.resource_name_filter
    return FilteredAcls(*pattern, asked.principal_filter, asked.host_filter, asked.operation, asked.permission_type)


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    pattern = acl.resource_type, acl.name, acl.pattern_type
    return DeleteAclsMatchingAcl(0, None, *pattern, acl.principal, acl.host, acl.operation, acl.permission)


def _failed(request: DeleteAclsRequest, error: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error, message)] * len(request.filters))


SERVED_API: Final = ServedApi(APIS[ApiKey.DELETE_ACLS], handle)
