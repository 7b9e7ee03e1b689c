"""DescribeAcls, CreateAcls and DeleteAcls, while there is no authorizer."""

from typing import Any

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_acls, delete_acls, describe_acls
from libs.wire.primitives import ProtocolError, Writer
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

VERSIONS = (1, 2, 3)
TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1
KNOWN = {"operation": READ, "permission_type": ALLOW}
FILTER = {"resource_type_filter": TOPIC, "pattern_type_filter": ANY, **KNOWN}
ACL = {
    "resource_type": TOPIC,
    "resource_name": "t",
    "resource_pattern_type": LITERAL,
    "principal": "User:a",
    "host": "*",
    **KNOWN,
}


def describing(**fields: int) -> describe_acls.DescribeAclsRequest:
    return describe_acls.DescribeAclsRequest(**{**FILTER, **fields})


def creating(**fields: int) -> create_acls.CreateAclsRequest:
    return create_acls.CreateAclsRequest([create_acls.AclCreation(**acl) for acl in ({**ACL}, {**ACL, **fields})])


def deleting(**fields: int) -> delete_acls.DeleteAclsRequest:
    return delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(**each) for each in ({**FILTER}, {**FILTER, **fields})])


async def ask(key: ApiKey, module: Any, request: Any, version: int) -> Any:
    """The response to a request that went through its bytes."""
    writer, served = Writer(), SERVED[key]
    module.write_request(writer, request, version)
    read = served.api.read(memoryview(writer.buffer), version)
    response = await served.handle(FakeGateway(Cluster()), context(version), read)
    assert served.written(version, 1, response)
    return response


@pytest.mark.parametrize("version", VERSIONS)
async def test_acls_are_not_described(version: int) -> None:
    response = await ask(ApiKey.DESCRIBE_ACLS, describe_acls, describing(), version)
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert response.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_acl_that_is_created_is_refused(version: int) -> None:
    response = await ask(ApiKey.CREATE_ACLS, create_acls, creating(), version)
    refused = create_acls.AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert response.results == [refused, refused]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_filter_of_acls_to_delete_is_refused(version: int) -> None:
    response = await ask(ApiKey.DELETE_ACLS, delete_acls, deleting(), version)
    refused = delete_acls.DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", [])
    assert response.filter_results == [refused, refused]


@pytest.mark.parametrize("code", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
async def test_an_unknown_code_is_malformed_and_one_that_nobody_knows_is_not(code: str) -> None:
    in_filter = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}.get(code, code)
    requests = (
        (ApiKey.DESCRIBE_ACLS, describe_acls, describing, in_filter),
        (ApiKey.CREATE_ACLS, create_acls, creating, code),
        (ApiKey.DELETE_ACLS, delete_acls, deleting, in_filter),
    )
    for key, module, request, field in requests:
        with pytest.raises(ProtocolError, match="UNKNOWN"):
            await ask(key, module, request(**{field: 0}), 3)
        await ask(key, module, request(**{field: 99}), 3)


async def test_a_request_has_no_more_than_twenty_thousand_acls() -> None:
    acl = create_acls.AclCreation(**ACL)
    await ask(ApiKey.CREATE_ACLS, create_acls, create_acls.CreateAclsRequest([acl] * 20_000), 3)
    with pytest.raises(ProtocolError):
        await ask(ApiKey.CREATE_ACLS, create_acls, create_acls.CreateAclsRequest([acl] * 20_001), 3)
