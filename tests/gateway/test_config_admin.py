"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from contextlib import nullcontext
from typing import Any

import pytest

from libs.rpc.contracts.controller import (
    ALTER_CONFIGS,
    AlterConfigs,
    AlterConfigsReply,
    ConfigChange,
    ConfigResource,
    ConfigResult,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import CONFIGS_MAX
from libs.wire.errors import ErrorCode
from libs.wire.messages import alter_configs as alter_wire
from libs.wire.messages import describe_configs as describe_wire
from libs.wire.messages import incremental_alter_configs as incremental_wire
from libs.wire.primitives import ProtocolError, Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import SERVED, alter_configs, describe_configs, incremental_alter_configs
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

CLUSTER = Cluster(
    topics={"a": (1,)},
    racks={2: "z2"},
    started_with={2: {"log.segment.bytes": "2000000"}},
    configs={
        ("topic", "a"): {"retention.ms": "5"},
        ("broker", ""): {"log.retention.ms": "7"},
        ("broker", "2"): {},
        ("group", "g"): {SESSION: "50000"},
    },
)


async def describe(
    kind: int, name: str, keys: list[str] | None = None, version: int = 4, broker_id: int = -1, **options: bool
) -> describe_wire.DescribeConfigsResult:
    request = describe_wire.DescribeConfigsRequest([describe_wire.DescribeConfigsResource(kind, name, keys)], **options)
    response = await describe_configs.handle(FakeGateway(CLUSTER), context(version, broker_id), request)
    describe_wire.write_response(Writer(), response, version)
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs(result: describe_wire.DescribeConfigsResult) -> dict[str, describe_wire.DescribeConfigsResourceResult]:
    return {config.name: config for config in result.configs}


async def test_a_topics_own_config_is_distinct_from_a_default() -> None:
    described = configs(await describe(TOPIC, "a"))
    assert (described["retention.ms"].value, described["retention.ms"].config_source) == ("5", 1)
    assert (described["durability"].value, described["durability"].config_source) == ("synced", 5)
    assert not described["retention.ms"].read_only
    assert described["retention.ms"].synonyms == []
    assert described["retention.ms"].documentation is None
    assert described["retention.ms"].config_type == 5


async def test_configs_from_a_brokers_start_are_described_by_it_and_no_other() -> None:
    for broker, of_topic, of_broker in ((2, ("2000000", 4), ("2000000", 4)), (1, ("1073741824", 5), ("1073741824", 5))):
        topics = configs(await describe(TOPIC, "a", broker_id=broker))["segment.bytes"]
        brokers = configs(await describe(BROKER, str(broker), broker_id=broker))["log.segment.bytes"]
        assert (topics.value, topics.config_source) == of_topic
        assert (brokers.value, brokers.config_source) == of_broker


async def test_synonyms_and_documentation_come_on_request() -> None:
    described = configs(await describe(TOPIC, "a", include_synonyms=True, include_documentation=True))
    synonyms = [(s.name, s.value, s.source) for s in described["retention.ms"].synonyms]
    assert synonyms[:2] == [("retention.ms", "5", 1), ("log.retention.ms", "7", 3)]
    assert described["retention.ms"].documentation


@pytest.mark.parametrize("keys", [None, []])
async def test_no_names_ask_for_all_configs(keys: list[str] | None) -> None:
    assert len((await describe(TOPIC, "a", keys)).configs) > 20


async def test_only_the_named_configs_are_described() -> None:
    assert set(configs(await describe(TOPIC, "a", ["segment.bytes", "nonsense"]))) == {"segment.bytes"}


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (16, "metrics", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_missing_resource_is_refused(kind: int, name: str, error: ErrorCode) -> None:
    result = await describe(kind, name)
    assert result.error_code == error
    assert result.configs == []


async def test_a_broker_is_described_on_the_bootstrap_port_and_on_its_own_only() -> None:
    for port in (-1, 2):
        described = configs(await describe(BROKER, "2", broker_id=port))
        assert (described["node.id"].value, described["node.id"].read_only) == ("2", True)
        assert described["broker.rack"].value == "z2"
        assert described["advertised.listeners"].value == "PLAINTEXT://gateway:9094"
        assert (described["log.retention.ms"].value, described["log.retention.ms"].config_source) == ("7", 3)
    assert (await describe(BROKER, "2", broker_id=1)).error_code == ErrorCode.INVALID_REQUEST


async def test_the_cluster_wide_default_is_what_was_set() -> None:
    assert set(configs(await describe(BROKER, ""))) == {"log.retention.ms"}


@pytest.mark.parametrize(("group", "session"), [("g", ("50000", 8)), ("never/seen é", ("45000", 5))])
async def test_a_groups_own_config_is_distinct_from_a_default_whether_or_not_the_group_exists(
    group: str, session: tuple[str, int]
) -> None:
    described = configs(await describe(GROUP, group, broker_id=1))
    assert (described[SESSION].value, described[SESSION].config_source) == session
    assert (described[HEARTBEAT].value, described[HEARTBEAT].config_source) == ("5000", 5)
    assert not described[SESSION].read_only


def recording() -> FakeGateway:
    gateway = FakeGateway(CLUSTER)

    def alter(method: str, body: AlterConfigs) -> AlterConfigsReply:
        assert method == ALTER_CONFIGS
        return AlterConfigsReply(tuple(ConfigResult(r.resource_type, r.name, 0) for r in body.resources), revision=8)

    gateway.on_controller = alter
    return gateway


def incremental(*resources: tuple[int, str, list[tuple[str, int, str | None]]], **options: Any) -> Any:
    return incremental_wire.IncrementalAlterConfigsRequest(
        [
            incremental_wire.AlterConfigsResource(kind, name, [incremental_wire.AlterableConfig(*change) for change in changes])
            for kind, name, changes in resources
        ],
        **options,
    )


async def test_changes_reach_the_controller_as_they_are() -> None:
    gateway = recording()
    request = incremental(
        (TOPIC, "a", [("retention.ms", 0, "9"), ("segment.bytes", 1, None), ("cleanup.policy", 2, "delete")]), validate_only=True
    )
    response = await incremental_alter_configs.handle(gateway, context(1), request)
    changes = (
        ConfigChange("retention.ms", 0, "9"),
        ConfigChange("segment.bytes", 1, None),
        ConfigChange("cleanup.policy", 2, "delete"),
    )
    assert gateway.requests[0][1] == AlterConfigs((ConfigResource(TOPIC, "a", changes),), validate_only=True)
    assert [(r.resource_type, r.resource_name, r.error_code) for r in response.responses] == [(TOPIC, "a", 0)]
    assert gateway.waited_for == [8]


async def test_the_old_way_replaces_all_configs() -> None:
    gateway = recording()
    resource = alter_wire.AlterConfigsResource(TOPIC, "a", [alter_wire.AlterableConfig("retention.ms", "9")])
    response = await alter_configs.handle(gateway, context(2), alter_wire.AlterConfigsRequest([resource]))
    wanted = ConfigResource(TOPIC, "a", (ConfigChange("retention.ms", 0, "9"),), replace=True)
    assert gateway.requests[0][1] == AlterConfigs((wanted,))
    assert [r.error_code for r in response.responses] == [0]


async def test_only_resources_that_make_sense_reach_the_controller() -> None:
    gateway = recording()
    request = incremental(
        (TOPIC, "a", [("retention.ms", 0, "9")]),
        (TOPIC, "b", []),
        (TOPIC, "b", []),
        (16, "1", []),
        (GROUP, "group", [(SESSION, 0, "50000")]),
        (BROKER, "", [("log.retention.ms", 0, "9")]),
        (BROKER, "x", []),
        (BROKER, "3", []),
    )
    response = await incremental_alter_configs.handle(gateway, context(1, broker_id=2), request)
    assert [(r.resource_type, r.name) for r in gateway.requests[0][1].resources] == [(TOPIC, "a"), (GROUP, "group"), (BROKER, "")]
    answers = {(r.resource_type, r.resource_name): r.error_code for r in response.responses}
    assert (len(response.responses), len(answers)) == (8, 7), "what is named twice is answered twice"
    assert {key for key, error in answers.items() if error == 0} == {(TOPIC, "a"), (GROUP, "group"), (BROKER, "")}
    assert {error for error in answers.values() if error} == {ErrorCode.INVALID_REQUEST}


async def test_a_controller_that_is_away_is_a_timeout_of_what_it_should_have_seen() -> None:
    gateway = FakeGateway(CLUSTER)

    def fail(method: str, body: object) -> AlterConfigsReply:
        raise ControllerUnavailable

    gateway.on_controller = fail
    request = incremental((TOPIC, "a", []), (16, "1", []))
    response = await incremental_alter_configs.handle(gateway, context(1), request)
    answers = {(r.resource_type, r.resource_name): r.error_code for r in response.responses}
    assert answers == {(TOPIC, "a"): ErrorCode.REQUEST_TIMED_OUT, (16, "1"): ErrorCode.INVALID_REQUEST}


async def test_a_resource_that_is_named_twice_is_described_once() -> None:
    """A broker has hundreds of configs, so a small request could ask for hundreds of megabytes."""
    for times, described in ((2, ["2", "a", "2", "a"]), (500, ["2", "a"])):
        named = [describe_wire.DescribeConfigsResource(*resource, None) for resource in [(BROKER, "2"), (TOPIC, "a")] * times]
        response = await describe_configs.handle(FakeGateway(CLUSTER), context(4), describe_wire.DescribeConfigsRequest(named))
        assert [result.resource_name for result in response.results] == described


@pytest.mark.parametrize(
    ("key", "module", "request_of"),
    [
        (
            ApiKey.DESCRIBE_CONFIGS,
            describe_wire,
            lambda count: describe_wire.DescribeConfigsRequest([describe_wire.DescribeConfigsResource(TOPIC, "a")] * count),
        ),
        (
            ApiKey.ALTER_CONFIGS,
            alter_wire,
            lambda count: alter_wire.AlterConfigsRequest([alter_wire.AlterConfigsResource(TOPIC, "a")] * count),
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            incremental_wire,
            lambda count: incremental_wire.IncrementalAlterConfigsRequest(
                [incremental_wire.AlterConfigsResource(TOPIC, "a")] * count
            ),
        ),
    ],
)
def test_requests_about_configs_are_bounded(key: ApiKey, module: Any, request_of: Any) -> None:
    for count, fits in ((CONFIGS_MAX, True), (CONFIGS_MAX + 1, False)):
        writer = Writer()
        module.write_request(writer, request_of(count), 1)
        with nullcontext() if fits else pytest.raises(ProtocolError):
            SERVED[key].api.read(memoryview(writer.buffer), 1)
