"""DescribeAcls (29), versions 1-3.

v1 pattern types · v2 flexible · v3 users as resources.

A gateway without an authorizer answers SECURITY_DISABLED, as a broker of Kafka does.

Differences from Kafka: ACLs come in the order of their resources. An address has one spelling, in the filter too.
"""

import asyncio
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from libs.cluster.acls import AclBinding, AclFilter
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

ACLS_PER_TURN: Final = 2000
"""The ACLs that are put into an answer before other clients have a turn."""

_MESSAGE = "No Authorizer is configured on the broker"


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    if not gateway.has_authorizer:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)
    wanted = AclFilter.asked(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    matching = gateway.image.acls.matching(wanted)
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for start in range(0, len(matching), ACLS_PER_TURN):
        _describe(matching[start : start + ACLS_PER_TURN], resources)
        await asyncio.sleep(0)
    return DescribeAclsResponse(resources=[resource for _, resource in sorted(resources.items(), key=itemgetter(0))])


def _describe(bindings: Iterable[AclBinding], resources: dict[tuple[int, int, str], DescribeAclsResource]) -> None:
    for kind, pattern_type, name, principal, host, operation, permission in bindings:
        pattern = int(kind), int(pattern_type), name
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(pattern[0], name, pattern[1])
        resource.acls.append(AclDescription(principal, host, int(operation), int(permission)))


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_ACLS], handle)
