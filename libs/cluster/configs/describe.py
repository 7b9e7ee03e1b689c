"""DescribeConfigs' view: each config's value, where it comes from, and what it would fall back to."""

from collections.abc import Mapping
from dataclasses import replace

from libs.cluster.configs.broker_names import base_name, broker_config
from libs.cluster.configs.definitions import BROKER, BROKER_CONFIGS, GROUP, TOPIC, TOPIC_CONFIGS, ConfigDef, ConfigError
from libs.cluster.configs.group_settings import group_settings
from libs.cluster.configs.resolve import (
    MIN_IN_SYNC,
    NO_BROKER,
    Overrides,
    Setting,
    Source,
    broker_settings,
    default_min_in_sync,
    in_topic_unit,
    own_value,
)
from libs.cluster.configs.values import show
from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One entry of a DescribeConfigs answer. `synonyms` starts with the setting in force, and has the value of a sensitive config
    too, which is for nobody to see."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Setting, ...]
    type: int
    documentation: str | None


def describe(
    image: Overrides,
    resource_type: int,
    name: str,
    *,
    broker_id: int = NO_BROKER,
    static: Mapping[str, str] | None = None,
    replication_factor: int = 1,
) -> list[DescribedConfig]:
    """All configs of a resource, by name.

    `broker_id`: the broker by whose values a topic is described; `static`: that broker's fixed values. `replication_factor` is
    the topic's.

    Raises ConfigError for a resource type without configs, and ValueError for a broker that is not a number. The caller checks
    whether the resource exists.
    """
    match resource_type:
        case 2:
            return describe_topic(image, name, broker_id=broker_id, static=static, replication_factor=replication_factor)
        case 4 if not name:
            return describe_cluster_default(image)
        case 4:
            return describe_broker(image, int(name), static=static)
        case 32:
            return describe_group(image, name)
        case _:
            raise ConfigError(f"Unsupported resource type: {resource_type} (topic {TOPIC}, broker {BROKER}, group {GROUP})")


def describe_topic(
    image: Overrides,
    topic: str,
    *,
    broker_id: int = NO_BROKER,
    static: Mapping[str, str] | None = None,
    replication_factor: int = 1,
) -> list[DescribedConfig]:
    own = image.overrides("topic", topic)
    entries = []
    for config in TOPIC_CONFIGS.values():
        own_setting = own_value(config, own)
        if config.hidden and own_setting is None:
            continue
        fallbacks = broker_settings(image, config.synonyms, broker_id, static)
        if config.name == MIN_IN_SYNC:
            fallbacks = [_by_factor(setting, replication_factor) for setting in fallbacks]
        settings = _from_first_name(fallbacks, config.synonyms)
        value = show(in_topic_unit(config, fallbacks[0])) if fallbacks else config.default
        if own_setting is not None:
            settings, value = [Setting(config.name, own_setting, Source.TOPIC), *settings], own_setting
        entries.append(_entry(config, value, settings))
    return entries


def describe_broker(image: Overrides, broker_id: int, *, static: Mapping[str, str] | None = None) -> list[DescribedConfig]:
    entries = []
    for config in BROKER_CONFIGS.values():
        settings = _from_first_name(broker_settings(image, config.synonyms or (config.name,), broker_id, static), (config.name,))
        if config.hidden and (not settings or settings[0].source is Source.DEFAULT):
            continue
        value = settings[0].value if settings and settings[0].name == config.name else config.default
        entries.append(_entry(config, value, settings))
    return entries + [_unlisted(image, name, broker_id, static) for name in sorted(_unlisted_names(image, broker_id, static))]


def _unlisted_names(image: Overrides, broker_id: int, static: Mapping[str, str] | None) -> set[str]:
    """The configs of a broker that are set and in no table."""
    layers = (image.overrides("broker", str(broker_id)), image.overrides("broker", ""), static or {})
    return {name for values in layers for name in values if name not in BROKER_CONFIGS}


def _unlisted(image: Overrides, name: str, broker_id: int, static: Mapping[str, str] | None) -> DescribedConfig:
    base = base_name(name)
    names = (name,) if base is None else (name, base)
    settings = _from_first_name(broker_settings(image, names, broker_id, static), names)
    return _entry(broker_config(name), settings[0].value if settings else None, settings)


def describe_cluster_default(image: Overrides) -> list[DescribedConfig]:
    """The cluster-wide default of broker configs: only those that have been set, as in Kafka, since it is no broker of its
    own."""
    values = image.overrides("broker", "")
    entries = []
    for name in sorted(values):
        config = broker_config(name)
        settings = [Setting(name, values[name], Source.DYNAMIC_DEFAULT_BROKER)]
        entries.append(_entry(config, values[name], settings))
    return entries


def describe_group(image: Overrides, group: str) -> list[DescribedConfig]:
    """The configs of a group. As in Kafka, the brokers' values are a group's default, and its own value hides them."""
    return [_entry(config, setting.value, [setting]) for config, setting in group_settings(image, group)]


def _by_factor(setting: Setting, replication_factor: int) -> Setting:
    if setting.source is not Source.DEFAULT:
        return setting
    return replace(setting, value=str(default_min_in_sync(replication_factor)))


def _from_first_name(settings: list[Setting], names: tuple[str, ...]) -> list[Setting]:
    """The synonyms as Kafka lists them: from the first that has the config's main name on. None if no setting has that name."""
    for index, setting in enumerate(settings):
        if setting.name == names[0]:
            return settings[index:]
    return []


def _entry(config: ConfigDef, value: str | None, settings: list[Setting]) -> DescribedConfig:
    source = settings[0].source if settings else Source.DEFAULT
    if config.sensitive:
        value = None
    read_only = config.read_only or not config.listed
    return DescribedConfig(config.name, value, source, read_only, config.sensitive, tuple(settings), config.type, _doc(config))


def _doc(config: ConfigDef) -> str | None:
    if not config.listed:
        return None
    if not config.served:
        return f"{config.doc} Not supported yet by Penstock: only the default is accepted."
    return config.doc if config.effect else f"No effect in Penstock. {config.doc}"
