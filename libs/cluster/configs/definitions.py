"""All configs by resource type, and whether a value may be set. Who may set what when is the controller's to decide."""

from typing import Final

from libs.cluster.configs.broker_table import BROKER_CONFIGS, UNITS_MS
from libs.cluster.configs.topic_table import TOPIC_CONFIGS
from libs.cluster.configs.values import ConfigDef, ConfigError, ConfigType, NotSupportedYet, UnknownConfig, shorten

__all__ = [
    "BROKER",
    "BROKER_CONFIGS",
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


def validate_topic(name: str, value: str) -> None:
    """Raises ConfigError unless the topic config can be set to `value`."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown topic config name: {shorten(name)}")
    config.validate(value)


def validate_broker(name: str, value: str, *, per_broker: bool) -> None:
    """Raises ConfigError unless the broker config can be set to `value` while the cluster runs."""
    config = require_dynamic(name, per_broker=per_broker)
    config.validate(value)


def require_dynamic(name: str, *, per_broker: bool) -> ConfigDef:
    """The broker config `name`, which may be changed here. Raises ConfigError."""
    config = BROKER_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown broker config name: {shorten(name)}")
    if config.read_only:
        raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
    if per_broker and config.cluster_wide:
        raise ConfigError(f"Cannot update these configs at per-broker level: Set({name}). They hold for the whole cluster")
    return config
