"""The tables of broker configs beside Kafka 4.2.1's own: the same names, types, defaults, bounds, scopes and importance."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.cluster.configs.broker_table import BROKER_CONFIGS
from libs.cluster.configs.retired_table import RETIRED, ZOOKEEPER
from libs.cluster.configs.values import ConfigDef, ConfigError
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.requirements import ROOT, require

HERE = Path(__file__).parent
PROBES = (
    *(str(number) for number in (*range(-3, 12), 18, 99, 100, 101, 1000, 10_000, 30_000, 60_000, 86_401, 3_600_001)),
    *("8388607", "8388608", "2147483647", "9223372036854775807", "0.5", "0.51", "", "none", "broker", "SSL", "es256"),
)
"""Values on both sides of each bound."""


@dataclass(frozen=True)
class KafkaConfig:
    name: str
    type: str
    default: str
    validator: str
    importance: str
    internal: str
    scope: str

    def takes(self, value: str) -> bool:
        """Whether a number is in the bounds, of which Kafka tells as text: `[1,...]` or `[0,...,1]`."""
        low, _, high = self.validator.strip("[]").partition(",...")
        return float(value) >= float(low) and (not high or float(value) <= float(high.removeprefix(",")))


@pytest.fixture(scope="module")
def kafkas() -> dict[str, KafkaConfig]:
    require("java", "kafka")
    command = KafkaJars(ROOT).command("KafkaBrokerConfigs", options=SHORT_LIVED)
    done = subprocess.run(
        [*command[:-1], str(HERE / "KafkaBrokerConfigs.java")], capture_output=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    configs = [KafkaConfig(*line.split("\t")) for line in done.stdout.splitlines()]
    return {config.name: config for config in configs}


def without_effect() -> list[ConfigDef]:
    return [config for config in BROKER_CONFIGS.values() if not config.effect]


def test_every_broker_config_of_kafka_is_in_the_tables(kafkas: dict[str, KafkaConfig]) -> None:
    assert len(kafkas) > 300
    assert kafkas.keys() - BROKER_CONFIGS.keys() == set()


def test_no_config_without_effect_is_made_up(kafkas: dict[str, KafkaConfig]) -> None:
    assert {config.name for config in without_effect()} - kafkas.keys() == set()


def test_no_retired_config_is_one_of_kafkas(kafkas: dict[str, KafkaConfig]) -> None:
    assert RETIRED.keys() & kafkas.keys() == set()
    assert [name for name in kafkas if name.startswith(ZOOKEEPER)] == []


def test_every_type_is_kafkas(kafkas: dict[str, KafkaConfig]) -> None:
    assert {name: BROKER_CONFIGS[name].type.name for name in kafkas} == {name: config.type for name, config in kafkas.items()}


def test_defaults_and_importance_of_configs_without_effect_are_kafkas(kafkas: dict[str, KafkaConfig]) -> None:
    for config in without_effect():
        theirs = kafkas[config.name]
        assert (str(config.default if config.default is not None else "null"), config.importance.upper()) == (
            theirs.default,
            theirs.importance,
        ), config.name


def test_bounds_of_configs_without_effect_are_kafkas(kafkas: dict[str, KafkaConfig]) -> None:
    for config in without_effect():
        theirs = kafkas[config.name]
        if ",..." in theirs.validator:
            assert {value for value in PROBES if is_valid(config, value)} == {
                value for value in PROBES if is_number(config, value) and theirs.takes(value)
            }, config.name


def test_scopes_of_configs_without_effect_are_kafkas(kafkas: dict[str, KafkaConfig]) -> None:
    for config in without_effect():
        assert scope_of(config) == kafkas[config.name].scope, config.name
        assert config.hidden == (kafkas[config.name].internal == "true"), config.name


def scope_of(config: ConfigDef) -> str:
    if config.read_only:
        return "null"
    if config.per_listener:
        return "per-listener"
    return "per-broker" if config.one_broker else "cluster-wide"


def is_valid(config: ConfigDef, value: str) -> bool:
    try:
        config.parse(value)
    except ConfigError:
        return False
    return True


def is_number(config: ConfigDef, value: str) -> bool:
    return is_valid(ConfigDef(config.name, config.type, None, ""), value)
