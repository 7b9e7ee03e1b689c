"""ApiVersions, and the table that it advertises."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    read_response,
)
from libs.wire.primitives import Reader, Writer
from services.gateway.exchange.request_context import RequestContext
from services.gateway.handlers import SERVED
from services.gateway.handlers.api_versions import handle
from services.gateway.protocol_docs.protocol_page import PAGE, page
from services.gateway.shortcuts.relay_shortcut import begin_request, begin_request_after_transactional_id
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

API = APIS[ApiKey.API_VERSIONS]


async def ask(
    version: int, body: bytes = b"", name: str = "kcat", software: str = "1.7", features: dict[str, int] | None = None
) -> tuple[bytes, RequestContext]:
    """The bytes of the answer behind the response header."""
    writer = Writer()
    if not body and version in (3, 4):
        writer.string(name, True)
        writer.string(software, True)
        writer.no_tagged_fields()
    reader = Reader(memoryview(bytes(writer.buffer) + body))
    request = API.read_request(reader, version)
    reader.expect_end()
    request_context = context(version)
    answered = Writer()
    API.write_response(answered, await handle(FakeGateway(Cluster(features=features or {})), request_context, request), version)
    return bytes(answered.buffer), request_context


def parse(body: bytes, version: int) -> ApiVersionsResponse:
    reader = Reader(memoryview(body))
    response = read_response(reader, version)
    reader.expect_end()
    return response


@pytest.mark.parametrize("version", range(5))
async def test_exactly_what_is_in_the_table_is_advertised(version: int) -> None:
    body, _ = await ask(version)
    response = parse(body, version)
    assert response.error_code == ErrorCode.NONE
    advertised = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    expected = {int(api.key): (api.min_version, api.max_version) for api in APIS.values()}
    expected[ApiKey.PRODUCE] = (0, 13)  # KAFKA-18659
    assert advertised == expected


@pytest.mark.parametrize("version", [3, 4])
async def test_a_cluster_that_never_changed_a_feature_has_the_highest_levels_as_of_the_metadatas_revision(version: int) -> None:
    response = parse((await ask(version))[0], version)
    assert response.finalized_features == [
        FinalizedFeatureKey("group.version", 1, 1),
        FinalizedFeatureKey("transaction.version", 2, 2),
    ]
    assert response.finalized_features_epoch == 7
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT in APIS


async def test_a_supported_feature_with_level_0_is_named_from_version_4_on_since_older_java_clients_cannot_read_it() -> None:
    of_groups, of_transactions = SupportedFeatureKey("group.version", 1, 1), SupportedFeatureKey("transaction.version", 0, 2)
    assert parse((await ask(4))[0], 4).supported_features == [of_groups, of_transactions]
    assert parse((await ask(3))[0], 3).supported_features == [of_groups]


@pytest.mark.parametrize("version", [3, 4])
async def test_the_finalized_level_is_that_of_the_metadata(version: int) -> None:
    response = parse((await ask(version, features={"transaction.version": 1}))[0], version)
    assert response.finalized_features[1:] == [FinalizedFeatureKey("transaction.version", 1, 1)]


async def test_a_feature_of_level_0_is_not_finalized() -> None:
    response = parse((await ask(4, features={"transaction.version": 0, "of.a.later.version": 3}))[0], 4)
    assert response.finalized_features == [FinalizedFeatureKey("group.version", 1, 1)]
    assert SupportedFeatureKey("transaction.version", 0, 2) in response.supported_features


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_a_version_that_we_do_not_serve_is_answered_in_the_form_of_version_0(version: int) -> None:
    body, _ = await ask(version, body=b"\1\2\3 whatever a later version may hold")
    response = parse(body, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.api_keys == [ApiVersion(18, 0, 4)]


@pytest.mark.parametrize(
    ("name", "software"),
    [("", "1"), ("kcat", ""), ("-kcat", "1"), ("kcat-", "1"), ("kc at", "1"), ("kcat", "1\n"), ("käte", "1")],
)
async def test_a_bad_software_name_or_version_is_an_invalid_request(name: str, software: str) -> None:
    body, request_context = await ask(3, name=name, software=software)
    response = parse(body, 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []
    assert request_context.software_name == ""


async def test_the_software_of_the_client_is_remembered() -> None:
    _, request_context = await ask(4, name="apache-kafka-java", software="4.2.1")
    assert (request_context.software_name, request_context.software_version) == ("apache-kafka-java", "4.2.1")


async def test_versions_0_to_2_have_no_software_to_be_wrong() -> None:
    response = await handle(FakeGateway(Cluster()), context(2), ApiVersionsRequest())
    assert response.error_code == ErrorCode.NONE


def test_only_produce_and_fetch_and_what_is_relayed_whole_have_no_handler() -> None:
    without = [row for row in SERVED.values() if row.handle is None]
    relayed = (begin_request, begin_request_after_transactional_id)
    assert {row.api.key for row in without if row.begin not in relayed} == {ApiKey.PRODUCE, ApiKey.FETCH}


def test_the_protocol_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m services.gateway.protocol_docs.protocol_page"
