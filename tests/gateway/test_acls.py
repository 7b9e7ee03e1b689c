"""DescribeAcls, CreateAcls and DeleteAcls of a gateway that has an authorizer: the answers, and what the controller is asked."""

from typing import Any

import pytest

from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.rpc.contracts.controller import (
    Acl,
    AclResult,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsReply,
    DeletedAcls,
    FilteredAcls,
)
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_acls as create
from libs.wire.messages import delete_acls as delete
from libs.wire.messages import describe_acls as describe
from libs.wire.primitives import Reader, Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

VERSIONS = (1, 2, 3)
TOPIC, GROUP, LITERAL, PREFIXED, MATCH, READ, WRITE, ALLOW, ANY = 2, 3, 3, 4, 2, 3, 4, 3, 1
ACL = Acl(TOPIC, PREFIXED, "t-", "User:a", "::1", WRITE, ALLOW)


def binding(
    name: str,
    resource_type: ResourceType = ResourceType.TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
    operation: AclOperation = AclOperation.READ,
) -> AclBinding:
    return AclBinding(resource_type, pattern_type, name, "User:a", host, operation, AclPermission.ALLOW)


STORED = (
    binding("u"),
    binding("t", operation=AclOperation.WRITE),
    binding("t", host="::1"),
    binding("t", ResourceType.GROUP),
    binding("t", pattern_type=PatternType.PREFIXED),
)


def gateway(*acls: AclBinding) -> FakeGateway:
    made = FakeGateway(Cluster(acls=acls))
    made.has_authorizer = True
    return made


async def ask(asked: FakeGateway, key: ApiKey, codec: Any, request: Any, version: int) -> Any:
    """The response as a client reads it."""
    writer, row = Writer(), SERVED[key]
    codec.write_request(writer, request, version)
    response = await row.handle(asked, context(version), row.api.read(memoryview(writer.buffer), version))
    flexible = version >= 2
    reader = Reader(memoryview(row.written(version, 1, response))[8 + flexible :])
    answer = codec.read_response(reader, version)
    reader.expect_end()
    return answer


@pytest.mark.parametrize("version", VERSIONS)
async def test_acls_are_described_by_their_resources(version: int) -> None:
    request = describe.DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    response = await ask(gateway(*STORED), ApiKey.DESCRIBE_ACLS, describe, request, version)
    assert (response.error_code, response.error_message) == (0, None)
    shown = [
        (each.resource_type, each.pattern_type, each.resource_name, [(acl.host, acl.operation) for acl in each.acls])
        for each in response.resources
    ]
    assert shown == [
        (TOPIC, LITERAL, "t", [("*", WRITE), ("::1", READ)]),
        (TOPIC, LITERAL, "u", [("*", READ)]),
        (TOPIC, PREFIXED, "t", [("*", READ)]),
        (GROUP, LITERAL, "t", [("*", READ)]),
    ]


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (describe.DescribeAclsRequest(TOPIC, "t", LITERAL, None, None, ANY, ANY), 2),
        (describe.DescribeAclsRequest(ANY, "tu", MATCH, None, None, ANY, ANY), 1),
        (describe.DescribeAclsRequest(ANY, None, ANY, None, "0:0:0:0:0:0:0:1", ANY, ANY), 1),
        (describe.DescribeAclsRequest(TOPIC, "u", LITERAL, "User:a", "*", READ, ALLOW), 1),
        (describe.DescribeAclsRequest(ANY, None, ANY, "User:b", None, ANY, ANY), 0),
        (describe.DescribeAclsRequest(99, None, ANY, None, None, ANY, ANY), 0),  # as in Kafka, what nobody knows matches nothing
        (describe.DescribeAclsRequest(ANY, None, 99, None, None, ANY, ANY), 0),
    ],
)
async def test_acls_are_described_by_a_filter(asked: describe.DescribeAclsRequest, count: int) -> None:
    response = await ask(gateway(*STORED), ApiKey.DESCRIBE_ACLS, describe, asked, 3)
    assert sum(len(each.acls) for each in response.resources) == count


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_controller_creates_acls(version: int) -> None:
    asked, seen = gateway(), []

    def answer(method: str, body: Any) -> Any:
        seen.append(body)
        return CreateAclsReply((AclResult(0, created=True), AclResult(42, "no")), 9)

    asked.on_controller = answer
    creation = create.AclCreation(TOPIC, "t-", PREFIXED, "User:a", "::1", WRITE, ALLOW)
    unknown = create.AclCreation(99, "t-", PREFIXED, "User:a", "::1", WRITE, ALLOW)
    response = await ask(asked, ApiKey.CREATE_ACLS, create, create.CreateAclsRequest([creation, unknown]), version)
    assert [(each.error_code, each.error_message) for each in response.results] == [(0, None), (42, "no")]
    assert seen == [CreateAcls((ACL, Acl(99, PREFIXED, "t-", "User:a", "::1", WRITE, ALLOW)))]
    assert seen[0].asked_by == context(version).asker
    assert asked.waited_for == [9]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_controller_deletes_acls(version: int) -> None:
    asked, seen = gateway(), []

    def answer(method: str, body: Any) -> Any:
        seen.append(body)
        return DeleteAclsReply((DeletedAcls(0, None, (ACL,)), DeletedAcls(42, "no")), 9)

    asked.on_controller = answer
    every = delete.DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    some = delete.DeleteAclsFilter(TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW)
    response = await ask(asked, ApiKey.DELETE_ACLS, delete, delete.DeleteAclsRequest([every, some]), version)
    matching = delete.DeleteAclsMatchingAcl(0, None, TOPIC, "t-", PREFIXED, "User:a", "::1", WRITE, ALLOW)
    assert response.filter_results == [
        delete.DeleteAclsFilterResult(0, None, [matching]),
        delete.DeleteAclsFilterResult(42, "no", []),
    ]
    assert seen == [
        DeleteAcls(
            (FilteredAcls(ANY, ANY, None, None, None, ANY, ANY), FilteredAcls(TOPIC, LITERAL, "t", "User:a", "*", READ, ALLOW))
        )
    ]
    assert asked.waited_for == [9]


async def test_a_controller_that_cannot_be_asked_is_an_error_for_each_item() -> None:
    asked = gateway()

    def fail(method: str, body: Any) -> Any:
        raise ControllerUnavailable("none")

    asked.on_controller = fail
    creations = [create.AclCreation(TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW)] * 2
    created = await ask(asked, ApiKey.CREATE_ACLS, create, create.CreateAclsRequest(creations), 3)
    assert [each.error_code for each in created.results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    filters = [delete.DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)] * 2
    deleted = await ask(asked, ApiKey.DELETE_ACLS, delete, delete.DeleteAclsRequest(filters), 3)
    assert [each.error_code for each in deleted.filter_results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert (await ask(asked, ApiKey.CREATE_ACLS, create, create.CreateAclsRequest([]), 3)).results == []
    assert (await ask(asked, ApiKey.DELETE_ACLS, delete, delete.DeleteAclsRequest([]), 3)).filter_results == []


def test_the_log_names_who_has_authenticated_and_the_client_of_the_others() -> None:
    asked = context(3)
    assert asked.asker.count("User:") == 0
    asked.principal = "User:alice"
    assert asked.asker.startswith("User:alice, ")
