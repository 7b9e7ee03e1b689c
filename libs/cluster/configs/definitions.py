"""All configs by resource type, and whether a value is valid. The controller decides which changes are allowed."""

from collections.abc import Mapping
from typing import Final

from libs.cluster.configs.broker_names import broker_config
from libs.cluster.configs.broker_table import AT_START, BROKER_CONFIGS, UNITS_MS
from libs.cluster.configs.group_table import GROUP_CONFIGS
from libs.cluster.configs.retired_table import RETIRED_OF_TOPICS, successor_of
from libs.cluster.configs.topic_table import TOPIC_CONFIGS
from libs.cluster.configs.values import (
    ConfigDef,
    ConfigError,
    ConfigType,
    NotSupportedYet,
    RetiredConfig,
    UnknownConfig,
    shorten,
)

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
    "RetiredConfig",
    "UnknownConfig",
]

TOPIC: Final = 2
"""Kafka's resource type of a topic."""

BROKER: Final = 4
"""Kafka's resource type of a broker; its name "" is the cluster-wide default."""

GROUP: Final = 32
"""Kafka's resource type of a group (KIP-848). It need not exist."""

HIDDEN: Final = "[hidden]"
"""What stands for a secret, as in Kafka."""

KINDS: Final = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}
"""The names in the metadata store of the resource types that have configs."""


def validate_topic(name: str, value: str) -> None:
    """Raises ConfigError unless the topic config can be set to `value`."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        retired = f". Kafka has removed it: {RETIRED_OF_TOPICS[name]}." if name in RETIRED_OF_TOPICS else ""
        raise UnknownConfig(f"Unknown topic config name: {shorten(name)}{retired}")
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
    _refuse_retired(name)
    config = BROKER_CONFIGS.get(name)
    if config is None:
        raise UnknownConfig(f"Unknown broker config name: {shorten(name)}")
    if config.cluster_wide or (config.one_broker and name not in AT_START):
        where = "--entity-default" if config.cluster_wide else "--entity-name"
        raise ConfigError(f"{name} is not read at a start: set it with kafka-configs.sh --entity-type brokers {where}")
    if name not in AT_START:
        raise ConfigError(f"{name} is decided by settings of processes: see docs/settings.md")
    config.validate(value)


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Broker configs for others to see. A secret is only told to be set."""
    return {name: HIDDEN if broker_config(name).sensitive else value for name, value in values.items()}


def require_dynamic(name: str, *, per_broker: bool) -> ConfigDef:
    """The definition of a broker config that may be changed while the cluster runs. Raises ConfigError."""
    _refuse_retired(name)
    config = broker_config(name)
    if config.read_only:
        raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
    if config.per_listener:
        only = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise ConfigError(f"{only}: Set({name})")
    if per_broker and config.cluster_wide:
        raise ConfigError(f"Cannot update these configs at per-broker level: Set({name}). They hold for the whole cluster")
    if config.one_broker and not per_broker:
        at_default = "Cannot update these configs at default cluster level, broker id must be specified"
        raise ConfigError(f"{at_default}: Set({shorten(name)})")
    return config


def _refuse_retired(name: str) -> None:
    if (successor := successor_of(name)) is not None:
        raise RetiredConfig(f"Kafka has removed {shorten(name)}: {successor}.")
