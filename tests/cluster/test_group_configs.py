"""Configs of group coordinators and of single groups: names and defaults as in Kafka 4.2, bounds, what is in force."""

from collections.abc import Mapping

import pytest

from libs.cluster.configs.definitions import (
    BROKER_CONFIGS,
    GROUP,
    GROUP_CONFIGS,
    ConfigError,
    NotSupportedYet,
    UnknownConfig,
    validate_broker,
    validate_group,
)
from libs.cluster.configs.describe import describe
from libs.cluster.configs.group_settings import check_coordinators, check_group, own_group_values

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"


class Overrides(dict[tuple[str, str], dict[str, str]]):
    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        return self.get((kind, name), {})


def image(*, group: dict[str, str] | None = None, **cluster: str) -> Overrides:
    """An image with group configs. `cluster`: values of group.consumer.*, with _ for dots."""
    values = {f"group.consumer.{name.replace('_', '.')}": value for name, value in cluster.items()}
    return Overrides({("broker", ""): values, ("group", "g"): group or {}})


def test_all_configs_of_coordinators_hold_for_the_cluster_and_can_be_changed() -> None:
    names = [
        name for name in BROKER_CONFIGS if name.startswith(("group.", "offset.", "offsets.")) and BROKER_CONFIGS[name].effect
    ]
    assert len(names) >= 19
    for name in names:
        config = BROKER_CONFIGS[name]
        assert config.default is not None
        validate_broker(name, config.default, per_broker=False)
        with pytest.raises(ConfigError):
            validate_broker(name, config.default, per_broker=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.max.size", "0"),
        ("group.consumer.session.timeout.ms", "0"),
        ("group.consumer.regex.refresh.interval.ms", "9999"),
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "uniform,sticky"),
        ("group.consumer.migration.policy", "sideways"),
        ("group.coordinator.rebalance.protocols", ""),
        ("group.coordinator.rebalance.protocols", "classic,quantum"),
        ("offsets.retention.minutes", "0"),
        ("offset.metadata.max.bytes", "many"),
    ],
)
def test_a_value_that_kafka_refuses_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError):
        validate_broker(name, value, per_broker=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.assignors", "range"),
        ("group.consumer.assignors", " range , uniform "),
        ("group.consumer.migration.policy", "UPGRADE"),
        ("group.coordinator.rebalance.protocols", "classic"),
        ("group.coordinator.rebalance.protocols", "consumer,classic"),
        ("group.initial.rebalance.delay.ms", "0"),
        ("offset.metadata.max.bytes", "-1"),
    ],
)
def test_a_value_that_kafka_takes_is_taken(name: str, value: str) -> None:
    validate_broker(name, value, per_broker=False)


@pytest.mark.parametrize("name", ["group.min.session.timeout.ms", "group.max.session.timeout.ms"])
def test_no_session_timeout_below_a_millisecond_can_be_allowed_while_the_cluster_runs(name: str) -> None:
    for value in ("-4", "0"):
        with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {name}: Value must be at least 1"):
            validate_broker(name, value, per_broker=False)
    validate_broker(name, "1", per_broker=False)


@pytest.mark.parametrize("protocols", ["consumer", "classic,consumer,streams", "classic,share"])
def test_protocols_that_are_not_built_and_a_cluster_without_the_classic_one_are_refused(protocols: str) -> None:
    with pytest.raises(NotSupportedYet):
        validate_broker("group.coordinator.rebalance.protocols", protocols, per_broker=False)


def test_configs_of_groups_that_are_not_built_take_their_default_only() -> None:
    validate_group("share.session.timeout.ms", "45000")
    with pytest.raises(NotSupportedYet):
        validate_group("share.session.timeout.ms", "50000")
    with pytest.raises(UnknownConfig):
        validate_group("session.timeout.ms", "50000")


def test_a_groups_own_values_are_its_own() -> None:
    mine = image(session_timeout_ms="50000", group={SESSION: " +46000 "})
    assert own_group_values(mine, "g") == {SESSION: "46000"}
    assert own_group_values(mine, "another") == {}


def test_group_configs_that_a_newer_version_stored_are_passed_over() -> None:
    assert own_group_values(image(group={SESSION: "a minute", "consumer.mood": "calm"}), "g") == {}


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ({HEARTBEAT: "4999"}, f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({HEARTBEAT: "15001"}, f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({SESSION: "44999"}, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "60001"}, f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
    ],
)
def test_a_group_stays_within_the_clusters_bounds(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_group(image(), own)


def test_the_bounds_of_groups_are_those_of_the_day() -> None:
    check_group(image(min_heartbeat_interval_ms="1"), {HEARTBEAT: "1"})
    check_group(image(max_session_timeout_ms="90000"), {SESSION: "90000"})


def test_a_group_that_would_lose_its_members_between_heartbeats_is_refused() -> None:
    bounds = image(min_session_timeout_ms="1000")
    check_group(bounds, {HEARTBEAT: "15000", SESSION: "15001"})
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        check_group(bounds, {HEARTBEAT: "15000", SESSION: "15000"})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"max.session.timeout.ms": "44999"}, "max.session.timeout.ms must be greater than or equal to"),
        ({"max.session.timeout.ms": "46000", "session.timeout.ms": "46001"}, "must be less than or equal to"),
        ({"session.timeout.ms": "44999"}, "must be greater than or equal to"),
        ({"heartbeat.interval.ms": "15001"}, "must be less than or equal to"),
        (
            {"heartbeat.interval.ms": "45000", "max.heartbeat.interval.ms": "45000"},
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
    ],
)
def test_a_clusters_values_must_agree(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_coordinators({f"group.consumer.{name}": value for name, value in values.items()})


def test_a_clusters_values_that_agree_are_taken() -> None:
    check_coordinators({})
    check_coordinators({"group.consumer.session.timeout.ms": "60000", "log.retention.ms": "5"})


def test_a_group_is_described_with_all_its_configs_and_where_they_come_from() -> None:
    configs = {entry.name: entry for entry in describe(image(session_timeout_ms="50000", group={HEARTBEAT: "6000"}), GROUP, "g")}
    assert configs.keys() == GROUP_CONFIGS.keys()
    assert (configs[HEARTBEAT].value, int(configs[HEARTBEAT].source)) == ("6000", 8)
    assert (configs[SESSION].value, int(configs[SESSION].source)) == ("50000", 5)
    assert [(s.name, s.value, int(s.source)) for s in configs[HEARTBEAT].synonyms] == [(HEARTBEAT, "6000", 8)]
    assert not configs[SESSION].read_only
    assert "Not supported yet" in configs["share.session.timeout.ms"].documentation
