"""Which limits of connections are in force, at a gateway and at each of its ports."""

import re
from dataclasses import replace
from math import inf

import pytest

from libs.cluster.configs.connection_table import NO_LIMIT
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, NodeRecord
from services.gateway.config import GatewayConfig
from services.gateway.core.connection_configs import UNLIMITED, ConfiguredLimits, ConnectionConfigs

MAX, PER_IP, RATE = "max.connections", "max.connections.per.ip", "max.connection.creation.rate"
OVERRIDES = "max.connections.per.ip.overrides"
CONFIG = GatewayConfig(node_id=1, etcd=("127.0.0.1:2379",), port_base=9092, data_dir="/nowhere")


def image(
    *, default: dict[str, str] | None = None, one: dict[str, str] | None = None, start: dict[str, str] | None = None
) -> ClusterImage:
    """Brokers 1 and 2. `default`: of all brokers; `one`: of broker 1; `start`: what broker 1 was started with."""
    overrides = {("broker", ""): default, ("broker", "1"): one}
    members = {1: Member(STORAGE, 1, 1, "host", configs=start or {}), 2: Member(STORAGE, 2, 1, "host")}
    return replace(
        ClusterImage(),
        nodes={1: NodeRecord(1), 2: NodeRecord(2)},
        members_by_role={STORAGE: members},
        overrides_by_resource={resource: values for resource, values in overrides.items() if values},
    )


def followed(image: ClusterImage, **static: str) -> ConnectionConfigs:
    configs = ConnectionConfigs({name.replace("_", "."): value for name, value in static.items()}, "PLAINTEXT")
    configs.follow(image)
    return configs


def test_without_configs_nothing_is_limited() -> None:
    configs = followed(image())
    assert (configs.gateway, configs.ports) == (UNLIMITED, {})


def test_the_default_of_all_brokers_holds_for_the_gateway_before_its_own_setting() -> None:
    static = {"max_connections": "50", "max_connections_per_ip": "5"}
    assert followed(image(), **static).gateway == ConfiguredLimits(50, 5)
    assert followed(image(default={MAX: "70", RATE: "9"}), **static).gateway == ConfiguredLimits(70, 5, {}, 9)


def test_a_brokers_own_value_holds_for_its_port_only() -> None:
    configs = followed(image(one={MAX: "7", OVERRIDES: "10.0.0.1:2"}))
    assert configs.gateway == UNLIMITED
    assert configs.ports == {1: ConfiguredLimits(7, NO_LIMIT, {"10.0.0.1": 2})}


def test_a_port_has_the_broker_s_value_then_the_default_then_that_of_its_start() -> None:
    start = {MAX: "3", PER_IP: "2"}
    assert followed(image(start=start)).ports == {1: ConfiguredLimits(3, 2)}
    both = followed(image(start=start, default={MAX: "30"}, one={PER_IP: "20"}))
    assert both.ports == {1: ConfiguredLimits(30, 20), 2: ConfiguredLimits(30)}


@pytest.mark.parametrize(("idle_ms", "idle_s"), [("1500", 1.5), ("0", 0.0), ("-1", inf), ("600000", 600.0)])
def test_the_idle_time_of_a_broker_s_start_holds_for_its_port(idle_ms: str, idle_s: float) -> None:
    assert followed(image(start={"connections.max.idle.ms": idle_ms})).ports == {1: ConfiguredLimits(idle_s_max=idle_s)}


def test_a_listeners_limit_holds_beside_the_one_without_its_name() -> None:
    own = "listener.name.plaintext."
    assert followed(image(default={own + MAX: "7", MAX: "9"})).gateway.connections_max == 7
    assert followed(image(default={own + MAX: "9", MAX: "7"})).gateway.connections_max == 7
    assert followed(image(default={own + RATE: "7"})).gateway.creation_rate == 7
    assert followed(image(one={own + MAX: "7"})).ports[1].connections_max == 7
    assert followed(image(default={"listener.name.other." + MAX: "7"})).gateway == UNLIMITED
    assert followed(image(default={own + PER_IP: "7"})).gateway == UNLIMITED, "as in Kafka, a listener has none"


def test_a_gateway_takes_a_tools_connections_whatever_its_limit_is() -> None:
    assert followed(image(default={MAX: "1"})).gateway.connections_max == 2
    assert followed(image(one={MAX: "1"})).ports[1].connections_max == 1
    shut = followed(image(default={PER_IP: "1", OVERRIDES: "10.0.0.1:1,10.0.0.2:0,10.0.0.3:9"})).gateway
    assert (shut.per_ip_max, shut.of_addresses) == (2, {"10.0.0.1": 2, "10.0.0.2": 0, "10.0.0.3": 9})
    assert followed(image(default={PER_IP: "0", OVERRIDES: "10.0.0.3:9"})).gateway.per_ip_max == 0


def test_what_a_later_version_wrote_is_passed_over() -> None:
    assert followed(image(default={MAX: "dynamic", RATE: "7"})).gateway == ConfiguredLimits(creation_rate=7)


def test_only_changes_of_limits_are_told() -> None:
    configs = ConnectionConfigs({}, "PLAINTEXT")
    before = image(default={MAX: "7"})
    assert configs.follow(before)
    assert not configs.follow(replace(before, revision=5))
    assert not configs.follow(image(default={MAX: "7", "log.retention.ms": "5"}))
    assert configs.follow(image(default={MAX: "8"}))
    assert configs.follow(image())
    assert configs.gateway == UNLIMITED


def test_the_limits_of_a_broker_go_with_it() -> None:
    before = image(one={MAX: "7"})
    configs = followed(before)
    assert configs.ports.keys() == {1}
    assert configs.follow(replace(before, nodes={2: NodeRecord(2)}, members_by_role={}))
    assert configs.ports == {}


def test_settings_stand_for_kafkas_configs() -> None:
    assert CONFIG.connection_configs == {}
    limited = replace(CONFIG, connections_max=5, connections_per_ip_overrides=("::1:2",), connection_creation_rate_max=3)
    assert limited.connection_configs == {MAX: "5", OVERRIDES: "::1:2", RATE: "3"}
    assert limited.problem() is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"connections_max": -5}, "PENSTOCK_CONNECTIONS_MAX: .*Value must be at least 0"),
        ({"connections_per_ip_overrides": ("10.0.0.7",)}, "PENSTOCK_CONNECTIONS_PER_IP_OVERRIDES: .*Error parsing"),
        ({"connections_per_ip_overrides": ("localhost:5",)}, "PENSTOCK_CONNECTIONS_PER_IP_OVERRIDES: .*not resolved"),
        ({"connection_creation_rate_max": 1 << 31}, "PENSTOCK_CONNECTION_CREATION_RATE_MAX: .*Not a number of type INT"),
    ],
)
def test_a_setting_that_is_no_limit_is_refused_at_the_start(changes: dict[str, object], words: str) -> None:
    problem = replace(CONFIG, **changes).problem()  # type: ignore[arg-type]
    assert problem is not None
    assert re.match(words, problem)
