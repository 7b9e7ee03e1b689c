"""Broker loggers in DescribeConfigs and IncrementalAlterConfigs."""

import logging
from collections.abc import Iterator

import pytest

from libs.cluster.records import CONTROLLER, STORAGE
from libs.rpc.contracts.controller import AlterConfigsReply, ConfigResult
from libs.rpc.contracts.log_levels import ChangeLogLevels, DescribeLogLevels, LevelChange, LogLevels
from libs.telemetry.level_switches import Switches
from libs.telemetry.loggers import CONCERNS
from libs.wire.errors import ErrorCode
from libs.wire.messages import describe_configs as describe_wire
from libs.wire.messages import incremental_alter_configs as wire
from libs.wire.primitives import Writer
from services.gateway.exchange.request_context import NodeUnavailable
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
    for name in (LOGGER, OTHER, *CONCERNS):
        logging.getLogger(name).setLevel(logging.NOTSET)
    Switches.look()


async def describe(
    name: str, keys: list[str] | None, broker_id: int = 2, *, gateway: FakeGateway | None = None
) -> describe_wire.DescribeConfigsResult:
    request = describe_wire.DescribeConfigsRequest([describe_wire.DescribeConfigsResource(BROKER_LOGGER, name, keys)])
    response = await describe_configs.handle(gateway or FakeGateway(Cluster()), context(4, broker_id), request)
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
    assert {"root", "network", "replication", "kafka.request.logger", LOGGER, OTHER} <= everything
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
        (("no.such\nlogger", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such\nlogger does not exist!"),
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


async def test_kafkas_name_of_a_logger_means_ours() -> None:
    assert await alter(resource("2", ("kafka.request.logger", SET, "DEBUG"))) == [(ErrorCode.NONE, None)]
    described = {each.name: each.value for each in (await describe("2", None)).configs}
    assert described["requests"] == described["kafka.request.logger"] == described["kafka.network.RequestChannel$"] == "DEBUG"
    assert level("requests") == "DEBUG"
    assert "kafka.request.logger" not in logging.root.manager.loggerDict
    assert await alter(resource("2", ("requests", DELETE, None))) == [(ErrorCode.NONE, None)]
    assert level("requests") == level("network")


async def test_one_logger_by_two_names_is_named_twice() -> None:
    change = resource("2", ("requests", SET, "DEBUG"), ("kafka.request.logger", SET, "INFO"))
    assert await alter(change) == [(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")]
    assert level("requests") == level("network")


def changed(gateway: FakeGateway) -> dict[tuple[str, int], list[tuple[str, str | None]]]:
    """What other processes were asked to change."""
    return {
        (role, node_id): [(change.logger, change.level) for change in body.changes]
        for role, node_id, _, body, _ in gateway.requests
        if isinstance(body, ChangeLogLevels)
    }


async def test_a_level_goes_to_the_storage_node_of_the_broker_and_to_those_who_do_what_the_logger_concerns() -> None:
    gateway = FakeGateway(Cluster(controllers=(1, 2)))
    changes = resource("2", ("replication", SET, "DEBUG"), ("state.change.logger", SET, "TRACE"), ("network", DELETE, None))
    assert await alter(changes, gateway=gateway) == [(ErrorCode.NONE, None)]
    elections = [("state.change.logger", "TRACE")]
    assert changed(gateway) == {
        (STORAGE, 2): [("replication", "DEBUG"), *elections, ("network", None)],
        (CONTROLLER, 1): elections,
        (CONTROLLER, 2): elections,
    }
    assert gateway.requests[0][3].asked_by == context(1).asker
    assert gateway.requests[0][3].changes[0] == LevelChange("replication", "DEBUG")


async def test_nothing_is_asked_of_others_by_validation_or_for_a_wrong_change() -> None:
    gateway = FakeGateway(Cluster(controllers=(1,)))
    await alter(resource("2", ("controller", SET, "DEBUG")), gateway=gateway, validate_only=True)
    await alter(resource("2", ("controller", SET, "LOUD")), gateway=gateway)
    assert gateway.requests == []


async def test_a_process_that_does_not_answer_is_named_and_the_others_have_the_level() -> None:
    gateway = FakeGateway(Cluster(controllers=(1, 2)))

    def answer(role: str, node_id: int, body: object) -> LogLevels:
        if (role, node_id) == (CONTROLLER, 1):
            raise NodeUnavailable(1, "it hangs")
        return LogLevels(())

    gateway.on_member = answer
    ((error, message),) = await alter(resource("2", ("controller", SET, "DEBUG")), gateway=gateway)
    assert error == ErrorCode.REQUEST_TIMED_OUT
    assert message is not None
    assert message.endswith("which did not answer: controller-1 (node 1: it hangs)")
    assert {(STORAGE, 2), (CONTROLLER, 2)} <= set(changed(gateway))
    assert level("controller") == "DEBUG"


async def test_the_level_that_lets_the_most_through_is_described() -> None:
    gateway = FakeGateway(Cluster(controllers=(1, 2)))
    levels = {
        (STORAGE, 2): (("replication", "DEBUG"), ("network", "FATAL"), ("odd", "LOUD")),
        (CONTROLLER, 1): (("controller", "TRACE"), ("replication", "TRACE")),
    }

    def answer(role: str, node_id: int, body: object) -> LogLevels:
        if (role, node_id) not in levels:
            raise NodeUnavailable(node_id)
        return LogLevels(levels[role, node_id])

    gateway.on_member = answer
    described = {each.name: each.value for each in (await describe("2", None, gateway=gateway)).configs}
    assert (described["replication"], described["controller"]) == ("DEBUG", "TRACE"), "a controller has no `replication`"
    assert described["network"] == described["root"]
    assert "odd" not in described


def processes_asked(gateway: FakeGateway, kind: type[object]) -> list[tuple[str, int]]:
    return sorted((role, node_id) for role, node_id, _, body, _ in gateway.requests if isinstance(body, kind))


EACH_ONCE = [(CONTROLLER, 1), (CONTROLLER, 2), (STORAGE, 1), (STORAGE, 2), (STORAGE, 3)]


async def test_each_process_is_asked_once_for_the_levels_of_all_brokers() -> None:
    gateway = FakeGateway(Cluster(controllers=(1, 2)))
    by_node = {1: "DEBUG", 2: "TRACE", 3: "FATAL"}
    gateway.on_member = lambda role, node_id, body: LogLevels(
        (("replication", by_node[node_id]),) if role == STORAGE else (("controller", "TRACE"),)
    )
    names = ["1", "2", "3", "7", ""]
    resources = [describe_wire.DescribeConfigsResource(BROKER_LOGGER, name, ["replication", "controller"]) for name in names]
    response = await describe_configs.handle(gateway, context(4, -1), describe_wire.DescribeConfigsRequest(resources))
    assert processes_asked(gateway, DescribeLogLevels) == EACH_ONCE
    own = logging.getLevelName(logging.getLogger("replication").getEffectiveLevel())[:4]
    assert [{each.name: each.value for each in result.configs} for result in response.results] == [
        {"controller": "TRACE", "replication": "DEBUG"},
        {"controller": "TRACE", "replication": "TRACE"},
        {"controller": "TRACE", "replication": own},
        {},
        {},
    ]


async def test_each_process_is_asked_once_to_change_the_levels_of_all_brokers() -> None:
    gateway = FakeGateway(Cluster(controllers=(1, 2)))

    def answer(role: str, node_id: int, body: object) -> LogLevels:
        if (role, node_id) in ((STORAGE, 3), (CONTROLLER, 2)):
            raise NodeUnavailable(node_id, "it hangs")
        return LogLevels(())

    gateway.on_member = answer
    answers = await alter(
        resource("1", ("controller", SET, "DEBUG"), ("replication", SET, "DEBUG")),
        resource("2", ("replication", SET, "INFO")),
        resource("3", ("replication", SET, "TRACE")),
        resource("7", ("replication", SET, "TRACE")),
        gateway=gateway,
        broker_id=-1,
    )
    assert processes_asked(gateway, ChangeLogLevels) == EACH_ONCE
    assert [error for error, _ in answers] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_REQUEST,
    ]
    assert [str(message).count("controller-2") for _, message in answers] == [1, 0, 0, 0]
    assert [str(message).count("storage-3") for _, message in answers] == [0, 0, 1, 0]
    assert changed(gateway)[STORAGE, 1] == [("controller", "DEBUG"), ("replication", "DEBUG")]
    assert changed(gateway)[CONTROLLER, 1] == [("controller", "DEBUG")]
