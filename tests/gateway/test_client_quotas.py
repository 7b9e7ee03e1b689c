"""DescribeClientQuotas and AlterClientQuotas: the answers, and what the controller is asked."""

from itertools import combinations, product
from typing import Any

import pytest

from libs.cluster.records import QuotaEntity
from libs.rpc.contracts.controller import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    EntityQuotas,
    EntityQuotasResult,
    QuotaChange,
)
from libs.rpc.messages.errors import RpcError
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import alter_client_quotas, describe_client_quotas
from libs.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from libs.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse
from libs.wire.primitives import Reader, Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

EXACT, DEFAULT, ANY = 0, 1, 2
RATE = "producer_byte_rate"
ALL = [
    *[QuotaEntity(user, client_id) for user in ("u", "v", "") for client_id in ("c", "", None)],
    *[QuotaEntity(client_id=client_id) for client_id in ("c", "d", "")],
    *[QuotaEntity(ip=ip) for ip in ("10.0.0.1", "")],
]


async def ask(gateway: FakeGateway, key: ApiKey, codec: Any, request: Any, version: int) -> Any:
    """The response as a client reads it."""
    writer = Writer()
    codec.write_request(writer, request, version)
    row = SERVED[key]
    response = await row.handle(gateway, context(version), row.api.read(memoryview(writer.buffer), version))
    written = row.written(version, 1, response)
    reader = Reader(memoryview(written)[8 + (version >= 1) :])
    answer = codec.read_response(reader, version)
    reader.expect_end()
    return answer


async def describe(*components: ComponentData, strict: bool = False, version: int = 1) -> DescribeClientQuotasResponse:
    gateway = FakeGateway(Cluster(quotas={entity: {RATE: float(at)} for at, entity in enumerate(ALL)}))
    request = DescribeClientQuotasRequest([*components], strict)
    response: DescribeClientQuotasResponse = await ask(
        gateway, ApiKey.DESCRIBE_CLIENT_QUOTAS, describe_client_quotas, request, version
    )
    return response


def entities(response: DescribeClientQuotasResponse) -> set[QuotaEntity]:
    """The entities of a response, each of which has its own quota."""
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    assert response.entries is not None
    found = []
    for entry in response.entries:
        parts = {part.entity_type: part.entity_name or "" for part in entry.entity}
        found.append(QuotaEntity(parts.get("user"), parts.get("client-id"), parts.get("ip")))
        assert [(value.key, value.value) for value in entry.values] == [(RATE, float(ALL.index(found[-1])))]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("version", [0, 1])
async def test_an_empty_filter_fits_all_and_nothing_if_it_is_strict(version: int) -> None:
    assert entities(await describe(version=version)) == set(ALL)
    assert entities(await describe(strict=True, version=version)) == set()


COMPONENTS = [
    ComponentData(kind, *match) for kind in ("user", "client-id") for match in ((EXACT, "u"), (DEFAULT, None), (ANY, None))
]
COMPONENTS += [ComponentData("client-id", EXACT, "c"), ComponentData("user", EXACT, "w")]
FILTERS = [[each] for each in COMPONENTS] + [
    [*pair] for pair in combinations(COMPONENTS, 2) if pair[0].entity_type != pair[1].entity_type
]


@pytest.mark.parametrize(("components", "strict"), [*product(FILTERS, [False, True])])
async def test_a_filter_fits_entities_that_have_a_fitting_part_for_each_component(
    components: list[ComponentData], strict: bool
) -> None:
    def fits(entity: QuotaEntity) -> bool:
        parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
        given = {kind: name for kind, name in parts.items() if name is not None}
        for each in components:
            if each.entity_type not in given:
                return False
            name = given.pop(each.entity_type)
            if not {EXACT: name == each.match, DEFAULT: name == "", ANY: True}[each.match_type]:
                return False
        return not (strict and given)

    assert entities(await describe(*components, strict=strict)) == set(filter(fits, ALL))


async def test_addresses_are_described_by_themselves() -> None:
    assert entities(await describe(ComponentData("ip", EXACT, "10.0.0.1"))) == {QuotaEntity(ip="10.0.0.1")}
    assert entities(await describe(ComponentData("ip", DEFAULT, None), strict=True)) == {QuotaEntity(ip="")}
    assert entities(await describe(ComponentData("ip", ANY, None))) == {QuotaEntity(ip="10.0.0.1"), QuotaEntity(ip="")}


@pytest.mark.parametrize("kind", ["user", "client-id", "ip"])
async def test_the_empty_name_is_not_the_default(kind: str) -> None:
    assert entities(await describe(ComponentData(kind, EXACT, ""))) == set()


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", ANY, None)], 42, "Invalid empty entity type."),
        ([("group", ANY, None)], 35, "Unsupported entity type group"),
        ([("user", EXACT, "u"), ("user", DEFAULT, None)], 42, "Entity type user cannot appear more than once in the filter."),
        ([("group", ANY, None), ("user", 3, None)], 35, "Unsupported entity type group"),
        ([("user", 3, None), ("group", ANY, None)], 42, "Unknown match type 3"),
        ([("user", -1, None)], 42, "Unknown match type -1"),
        ([("user", EXACT, None)], 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "u")], 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", ANY, "u")], 42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("ip", ANY, None), ("user", ANY, None)], 42, "Invalid entity filter component combination."),
        ([("client-id", EXACT, "c"), ("ip", DEFAULT, None)], 42, "Invalid entity filter component combination."),
    ],
)
async def test_a_bad_filter_is_refused_with_kafkas_code(
    components: list[tuple[str, int, str | None]], error: int, message: str
) -> None:
    for strict in (False, True):
        response = await describe(*[ComponentData(*each) for each in components], strict=strict)
        assert (response.error_code, response.entries) == (error, None)
        assert (response.error_message or "").startswith(message)


async def alter(gateway: FakeGateway, request: AlterClientQuotasRequest, version: int = 1) -> list[tuple[Any, ...]]:
    response = await ask(gateway, ApiKey.ALTER_CLIENT_QUOTAS, alter_client_quotas, request, version)
    return [
        (entry.error_code, entry.error_message, [(part.entity_type, part.entity_name) for part in entry.entity])
        for entry in response.entries
    ]


def asking(reply: AlterClientQuotasReply | Exception) -> FakeGateway:
    gateway = FakeGateway(Cluster())

    def answer(method: str, body: object) -> AlterClientQuotasReply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    gateway.on_controller = answer
    return gateway


BOTH = (("client-id", None), ("user", "u"))
REQUEST = AlterClientQuotasRequest(
    [
        RequestEntryData([EntityData("user", "u"), EntityData("client-id", None)], [OpData(RATE, 5.5), OpData("x", 7.0, True)]),
        RequestEntryData([EntityData("ip", "")], []),
    ]
)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("validate_only", [False, True])
async def test_the_controller_decides_and_the_client_then_reads_its_own_change(version: int, validate_only: bool) -> None:
    refused = EntityQuotasResult((("ip", ""),), ErrorCode.INVALID_REQUEST, "Empty ip not supported")
    gateway = asking(AlterClientQuotasReply((EntityQuotasResult(BOTH, 0), refused), 7))
    answers = await alter(gateway, AlterClientQuotasRequest(REQUEST.entries, validate_only), version)
    asked = AlterClientQuotas(
        (EntityQuotas(BOTH, (QuotaChange(RATE, 5.5), QuotaChange("x", None))), EntityQuotas((("ip", ""),), ())), validate_only
    )
    assert gateway.requests == [("controller.alter_client_quotas", asked, 30.0)]
    assert gateway.waited_for == [7]
    assert answers == [(0, None, [*BOTH]), (42, "Empty ip not supported", [("ip", "")])]


async def test_an_entity_is_the_same_in_any_order_and_of_a_type_that_is_named_twice_the_last_part_counts() -> None:
    gateway = asking(AlterClientQuotasReply((EntityQuotasResult(BOTH, 42, "twice"),), 7))
    parts = [EntityData("client-id", "c"), EntityData("user", "u"), EntityData("client-id", None)]
    request = AlterClientQuotasRequest([RequestEntryData(parts), RequestEntryData([*REQUEST.entries[0].entity])])
    assert await alter(gateway, request) == [(42, "twice", [*BOTH])]
    assert [each.entity for each in gateway.requests[0][1].entities] == [BOTH, BOTH]


async def test_a_request_without_entities_asks_nobody() -> None:
    assert await alter(FakeGateway(Cluster()), AlterClientQuotasRequest()) == []


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ControllerUnavailable(), ErrorCode.REQUEST_TIMED_OUT),
        (RpcError(ErrorCode.NOT_CONTROLLER, "No."), ErrorCode.NOT_CONTROLLER),
    ],
)
async def test_a_failure_of_the_whole_request_is_the_answer_for_each_entity(failure: Exception, error: ErrorCode) -> None:
    twice = AlterClientQuotasRequest([*REQUEST.entries, REQUEST.entries[0]])
    answers = await alter(asking(failure), twice)
    assert [(code, entity) for code, _, entity in answers] == [(error, [*BOTH]), (error, [("ip", "")])]
    assert all(message for _, message, _ in answers)


async def test_names_with_any_character_come_back_as_they_are() -> None:
    names = ["<default>", "a/b", "é\0\n", "%3Cdefault%3E", "x" * 20_000]
    gateway = FakeGateway(Cluster(quotas={QuotaEntity(name): {RATE: 1.0} for name in names}))
    for name in names:
        request = DescribeClientQuotasRequest([ComponentData("user", EXACT, name)])
        response = await ask(gateway, ApiKey.DESCRIBE_CLIENT_QUOTAS, describe_client_quotas, request, 1)
        assert [part.entity_name for entry in response.entries for part in entry.entity] == [name]
