"""The configs in force for a group: its own values, else the cluster's; and combinations that contradict each other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from libs.cluster.configs.definitions import BROKER_CONFIGS, GROUP_CONFIGS, ConfigDef, ConfigError
from libs.cluster.configs.group_table import HEARTBEAT, SESSION
from libs.cluster.configs.resolve import Overrides, Setting, Source, effective_broker_int, own_value

_BOUNDED: Final = {
    f"consumer.{setting}": (f"group.consumer.min.{setting}", f"group.consumer.max.{setting}") for setting in (HEARTBEAT, SESSION)
}
"""Configs of a group that have bounds, each with the cluster-wide configs of its lower and upper bound."""


def own_group_values(image: Overrides, group: str) -> dict[str, str]:
    """The values that were set for a group, as far as this version can read them. They may lie outside of bounds that were
    narrowed later."""
    values = image.overrides("group", group)
    if not values:
        return {}
    read = {name: own_value(config, values) for name, config in GROUP_CONFIGS.items() if name in values}
    return {name: value for name, value in read.items() if value is not None}


def group_settings(image: Overrides, group: str) -> Iterator[tuple[ConfigDef, Setting]]:
    """Every config of a group, with the value that was set for it."""
    own = own_group_values(image, group)
    for name, config in GROUP_CONFIGS.items():
        assert config.default is not None
        if name in own:
            yield config, Setting(name, own[name], Source.GROUP)
        elif config.synonyms:
            yield config, Setting(name, str(effective_broker_int(image, config.synonyms[0])), Source.DEFAULT)
        else:
            yield config, Setting(name, config.default, Source.DEFAULT)


def check_group(image: Overrides, values: Mapping[str, str]) -> None:
    """Raises ConfigError if a group's own values are outside of the cluster's bounds, or contradict each other."""

    def effective(name: str) -> int:
        own = own_value(GROUP_CONFIGS[name], values)
        return int(own) if own is not None else effective_broker_int(image, GROUP_CONFIGS[name].synonyms[0])

    for name, (low, high) in _BOUNDED.items():
        _check_bounds(name, effective(name), low, high, lambda bound: effective_broker_int(image, bound))
    if effective(f"consumer.{SESSION}") <= effective(f"consumer.{HEARTBEAT}"):
        raise ConfigError(f"consumer.{SESSION} must be greater than consumer.{HEARTBEAT}")


def check_coordinators(values: Mapping[str, str]) -> None:
    """Raises ConfigError if the cluster-wide `values` contradict each other. A Kafka broker would not start with such values."""

    def effective(name: str) -> int:
        config = BROKER_CONFIGS[name]
        text = own_value(config, values) or config.default
        assert text is not None
        return int(text)

    for setting in (HEARTBEAT, SESSION):
        low, high = f"group.consumer.min.{setting}", f"group.consumer.max.{setting}"
        if effective(high) < effective(low):
            raise ConfigError(f"{high} must be greater than or equal to {low}")
        _check_bounds(f"group.consumer.{setting}", effective(f"group.consumer.{setting}"), low, high, effective)
    if effective(f"group.consumer.{HEARTBEAT}") >= effective(f"group.consumer.{SESSION}"):
        raise ConfigError(f"group.consumer.{HEARTBEAT} must be less than group.consumer.{SESSION}")


def _check_bounds(name: str, value: int, low: str, high: str, bound: Callable[[str], int]) -> None:
    if value < bound(low):
        raise ConfigError(f"{name} must be greater than or equal to {low}")
    if value > bound(high):
        raise ConfigError(f"{name} must be less than or equal to {high}")
