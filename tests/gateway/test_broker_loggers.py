"""Broker loggers in DescribeConfigs and IncrementalAlterConfigs."""

import logging
from collections.abc import Iterator

import pytest

from libs.rpc.contracts.controller import AlterConfigsReply, ConfigResult
from libs.wire.errors import ErrorCode
from libs.wire.messages import describe_configs as describe_wire
from libs.wire.messages import incremental_alter_configs as wire
from libs.wire.primitives import Writer
from services.gateway.handlers import describe_configs, incremental_alter_configs
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

TOPIC, BROKER_LOGGER = 2, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
LOGGER, OTHER = "loggers_of_tests.one", "loggers_of_tests.other"
Change = tuple[str, int, str | None]


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    for name in (LOGGER, OTHER):
        logging.getLogger(name).setLevel(logging.WARNING)
    yield
    root.setLevel(before)
    for name in (LOGGER, OTHER):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def describe(name: str, keys: list[str] | None, broker_id: int = 2) -> describe_wire.DescribeConfigsResult:
    request = describe_wire.DescribeConfigsRequest([describe_wire.DescribeConfigsResource(BROKER_LOGGER, name, keys)])
    response = await describe_configs.handle(FakeGateway(Cluster()), context(4, broker_id), request)
    describe_wire.write_response(Writer(), response, 4)
    (result,) = response.results
    return result


def resource(name: str, *changes: Change, kind: int = BROKER_LOGGER) -> wire.AlterConfigsResource:
    return wire.AlterConfigsResource(kind, name, [wire.AlterableConfig(*change) for change in changes])


async def alter(
    *resources: wire.AlterConfigsResource, gateway: FakeGateway | None = None, broker_id: int = 2, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = wire.IncrementalAlterConfigsRequest([*resources], validate_only)
    gateway = gateway or FakeGateway(Cluster())  # without a controller that would answer
    response = await incremental_alter_configs.handle(gateway, context(1, broker_id), request)
    return [(r.error_code, r.error_message) for r in response.responses]


def level(name: str = LOGGER) -> str:
    return logging.getLevelName(logging.getLogger(name).getEffectiveLevel())


async def test_loggers_are_described_as_kafka_describes_its_own() -> None:
    (config,) = (await describe("2", [LOGGER])).configs
    assert (config.name, config.value, config.config_source, config.config_type) == (LOGGER, "WARN", 6, 0)
    assert (config.read_only, config.is_sensitive, config.synonyms, config.documentation) == (False, False, [], None)
    everything = {each.name for each in (await describe("2", None)).configs}
    assert {"root", "services.gateway", "libs.rpc.server.rpc_server", LOGGER, OTHER} <= everything
    assert (await describe("2", ["no.such.logger"])).configs == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Broker id must not be empty"),
        ("two", "Broker id must be an integer, but it is: two"),
        ("1", "Unexpected broker id, expected 2, but received 1"),
    ],
)
async def test_a_broker_has_its_own_loggers_only(name: str, message: str) -> None:
    described = await describe(name, None)
    assert (described.error_code, described.error_message, described.configs) == (ErrorCode.INVALID_REQUEST, message, [])
    assert await alter(resource(name, (LOGGER, SET, "DEBUG"))) == [(ErrorCode.INVALID_REQUEST, message)]
    assert level() == "WARNING"


async def test_the_bootstrap_port_has_those_of_each_broker_that_exists() -> None:
    assert (await describe("3", [LOGGER], broker_id=-1)).configs[0].value == "WARN"
    assert (await describe("7", [LOGGER], broker_id=-1)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_level_is_set_and_taken_away_without_a_controller() -> None:
    assert await alter(resource("2", (LOGGER, SET, "DEBUG"), (OTHER, SET, "FATAL"))) == [(ErrorCode.NONE, None)]
    assert (level(), level(OTHER)) == ("DEBUG", "CRITICAL")
    logging.getLogger().setLevel(logging.ERROR)
    assert await alter(resource("2", (LOGGER, DELETE, None))) == [(ErrorCode.NONE, None)]
    assert level() == "ERROR"


async def test_nothing_is_changed_by_validation() -> None:
    assert await alter(resource("2", (LOGGER, SET, "DEBUG")), validate_only=True) == [(ErrorCode.NONE, None)]
    assert level() == "WARNING"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        (("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        (
            (OTHER, SET, "info"),
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {OTHER} to info as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        ((OTHER, SET, None), ErrorCode.INVALID_REQUEST, f"Null value not supported for : {OTHER}"),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        ((OTHER, APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (
            (OTHER, SUBTRACT, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        ((OTHER, 9, "INFO"), ErrorCode.INVALID_REQUEST, "unknown operation is not allowed for the BROKER_LOGGER resource"),
        ((LOGGER, SET, "INFO"), ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
    ],
)
async def test_one_wrong_change_refuses_those_beside_it(change: Change, error: ErrorCode, message: str) -> None:
    assert await alter(resource("2", (LOGGER, SET, "DEBUG"), change)) == [(error, message)]
    assert level() == "WARNING"
    assert "no.such.logger" not in logging.root.manager.loggerDict


async def test_a_resource_that_is_named_twice_is_refused_twice() -> None:
    refused = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert await alter(*[resource("2", (LOGGER, SET, "DEBUG"))] * 2) == [refused, refused]
    assert level() == "WARNING"


async def test_the_controller_decides_on_what_is_beside_loggers() -> None:
    gateway = FakeGateway(Cluster(topics={"a": (1,)}))
    gateway.on_controller = lambda method, body: AlterConfigsReply(
        tuple(ConfigResult(r.resource_type, r.name, ErrorCode.POLICY_VIOLATION, "no") for r in body.resources), 7
    )
    of_topic = resource("a", ("retention.ms", SET, "5"), kind=TOPIC)
    answers = await alter(of_topic, resource("2", (LOGGER, SET, "DEBUG")), gateway=gateway)
    assert answers == [(ErrorCode.NONE, None), (ErrorCode.POLICY_VIOLATION, "no")]
    assert level() == "DEBUG"
