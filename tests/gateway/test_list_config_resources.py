"""ListConfigResources: the resources that have configs, or may have."""

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages import list_config_resources as wire
from libs.wire.primitives import Reader, Writer
from services.gateway.handlers import list_config_resources
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

CLUSTER = Cluster(
    topics={"a": (1,), "b": (2,)},
    configs={
        ("topic", "a"): {"retention.ms": "5"},
        ("broker", ""): {"log.retention.ms": "7"},
        ("group", "one/two é"): {"consumer.session.timeout.ms": "50000"},
        ("group", "no longer"): {},
    },
)

TOPICS = {(TOPIC, "a"), (TOPIC, "b")}
BROKERS = {(BROKER, str(broker)) for broker in (1, 2, 3)}
LOGGERS = {(BROKER_LOGGER, str(broker)) for broker in (1, 2, 3)}
GROUPS = {(GROUP, "one/two é")}


async def ask(types: list[int], version: int = 1) -> wire.ListConfigResourcesResponse:
    request = wire.ListConfigResourcesRequest(types)
    response = await list_config_resources.handle(FakeGateway(CLUSTER), context(version), request)
    writer = Writer()
    wire.write_response(writer, response, version)
    return wire.read_response(Reader(memoryview(writer.buffer)), version)


@pytest.mark.parametrize(
    ("types", "listed"),
    [
        ([TOPIC], TOPICS),
        ([BROKER], BROKERS),
        ([GROUP], GROUPS),
        ([GROUP, TOPIC, GROUP], GROUPS | TOPICS),
        ([CLIENT_METRICS], set()),
        ([BROKER_LOGGER, CLIENT_METRICS], LOGGERS),
        ([], TOPICS | BROKERS | LOGGERS | GROUPS),
    ],
)
async def test_each_resource_of_a_requested_type_is_listed_once(types: list[int], listed: set[tuple[int, str]]) -> None:
    response = await ask(types)
    resources = [(resource.resource_type, resource.resource_name) for resource in response.config_resources]
    assert (response.error_code, set(resources), len(resources)) == (ErrorCode.NONE, listed, len(listed))


@pytest.mark.parametrize("types", [[0], [3], [TOPIC, 64], [-1]])
async def test_a_type_that_is_none_refuses_the_whole(types: list[int]) -> None:
    response = await ask(types)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def test_the_oldest_version_knows_client_metrics_only() -> None:
    response = await ask([], version=0)
    assert (response.error_code, response.config_resources) == (ErrorCode.NONE, [])
