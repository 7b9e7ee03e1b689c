"""All configs by resource type, and whether a value is valid. The controller decides which changes are allowed."""

from collections.abc import Mapping
from typing import Final

from libs.cluster.configs.broker_table import BROKER_CONFIGS, OF_STORAGE, UNITS_MS
from libs.cluster.configs.group_table import GROUP_CONFIGS
from libs.cluster.configs.topic_table import TOPIC_CONFIGS
from libs.cluster.configs.values import ConfigDef, ConfigError, ConfigType, NotSupportedYet, UnknownConfig, shorten

__all__ = [
    "BROKER",
    "BROKER_CONFIGS",
    "GROUP",
    "GROUP_CONFIGS",
    "KINDS",
    "TOPIC",
    "TOPIC_CONFIGS",
    "UNITS_MS",
    "ConfigDef",
    "ConfigError",
    "ConfigType",
    "NotSupportedYet",
    "UnknownConfig",
]

TOPIC: Final = 2
"""Kafka's resource type of a topic."""

BROKER: Final = 4
"""Kafka's resource type of a broker; its name "" is the cluster-wide default."""

GROUP: Final = 32
"""Kafka's resource type of a group (KIP-848). It need not exist."""

KINDS: Final = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}
"""The names in the metadata store of the resource types that have configs."""


def validate_topic(name: str, value: str) -> None:
    """Raises ConfigError unless the topic config can be set to `value`."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown topic config name: {shorten(name)}")
    config.validate(value)


def validate_group(name: str, value: str) -> None:
    """Raises ConfigError unless the config of a group can be set to `value`. The brokers' bounds are not looked at."""
    config = GROUP_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown group config name: {shorten(name)}")
    config.validate(value)


def validate_together(values: Mapping[str, str]) -> None:
    """Raises ConfigError if configs of a topic contradict each other, each of which is valid alone. A config that is not set has
    Kafka's default."""
    least, most = _whole_number(values, "min.compaction.lag.ms"), _whole_number(values, "max.compaction.lag.ms")
    if least > most:
        raise ConfigError(f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})")


def _whole_number(values: Mapping[str, str], name: str) -> int:
    """A whole-number config's value. Where a newer version wrote a value that this version cannot read, it is the default."""
    config = TOPIC_CONFIGS[name]
    assert config.default is not None
    try:
        number = config.parse(values.get(name, config.default))
    except ConfigError:
        number = config.parse(config.default)
    assert isinstance(number, int)
    return number


def validate_broker(name: str, value: str, *, per_broker: bool) -> None:
    """Raises ConfigError unless the broker config can be set to `value` while the cluster runs."""
    config = require_dynamic(name, per_broker=per_broker)
    config.validate(value)


def validate_static(name: str, value: str) -> None:
    """Raises ConfigError unless a storage node can be told at its start that the broker config is `value`."""
    if name not in OF_STORAGE:
        raise UnknownConfig(f"{shorten(name)} is not a config that a storage node is told at its start")
    BROKER_CONFIGS[name].validate(value)


def require_dynamic(name: str, *, per_broker: bool) -> ConfigDef:
    """The definition of a broker config that may be changed while the cluster runs. Raises ConfigError."""
    config = BROKER_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown broker config name: {shorten(name)}")
    if config.read_only:
        raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
    if per_broker and config.cluster_wide:
        raise ConfigError(f"Cannot update these configs at per-broker level: Set({name}). They hold for the whole cluster")
    if config.one_broker and not per_broker:
        raise ConfigError(f"Cannot update these configs at default level: Set({name}). They are of one broker")
    return config
