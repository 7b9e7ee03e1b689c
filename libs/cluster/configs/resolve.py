"""The config in force: a topic's own value, else its broker's, else the cluster-wide default, else the static default."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, Protocol

from libs.cluster.configs.broker_names import broker_config
from libs.cluster.configs.definitions import BROKER_CONFIGS, TOPIC_CONFIGS, UNITS_MS, ConfigDef, ConfigError
from libs.cluster.configs.values import ConfigValue
from libs.lean_dataclass import dataclass

NO_BROKER: Final = -1


MIN_IN_SYNC: Final = "min.insync.replicas"

BY_FACTOR: Final = 0
"""The value of `TopicConfig.min_insync_replicas` where nobody configured one: see `default_min_in_sync`."""


def default_min_in_sync(replication_factor: int) -> int:
    """The default of min.insync.replicas: 2 with three replicas or more, so that acknowledged records survive any single
    failure."""
    return 2 if replication_factor >= 3 else 1


class Overrides(Protocol):
    """The source of dynamic values. `ClusterImage` is one."""

    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        """`kind` is "topic", "broker" or "group"; broker "" is the cluster-wide default."""


class Source(IntEnum):
    """DescribeConfigs' config source codes."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """A value at one level of the order of precedence, under the name that it has at that level."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configs of a topic on which a storage node acts. A new one is made when the image's configs change; compare with ==."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool
    cleanup_policy: tuple[str, ...]
    retention_ms: int  # -1: for ever
    retention_bytes: int  # -1: no limit
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    file_delete_delay_ms: int
    durability: str  # "synced" | "replicated"
    min_insync_replicas: int  # BY_FACTOR: nobody configured it
    flush_messages: int
    flush_ms: int
    unclean_leader_election_enable: bool
    max_message_bytes: int
    message_timestamp_type: str  # "CreateTime" | "LogAppendTime"
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    record_validation: str  # "header" | "full"
    producer_ids_max: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def synced(self) -> bool:
        return self.durability == "synced"

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


_FIELDS: Final = {field: field.replace("_", ".") for field in TopicConfig.__dataclass_fields__}
"""The fields of TopicConfig, each with the name of its config."""


def effective_topic_config(
    image: Overrides, topic: str, *, broker_id: int = NO_BROKER, static: Mapping[str, str] | None = None
) -> TopicConfig:
    """The configs of `topic` on one broker, or without the values of any single broker. Cache them until an override changes."""
    layers = _Layers(image, broker_id, static)
    own = image.overrides("topic", topic)
    settings = {field: layers.topic_value(TOPIC_CONFIGS[name], own) for field, name in _FIELDS.items()}
    if own_value(TOPIC_CONFIGS[MIN_IN_SYNC], own) is None and not layers.sets(MIN_IN_SYNC):
        settings["min_insync_replicas"] = BY_FACTOR
    for_tests = own_value(TOPIC_CONFIGS["internal.segment.bytes"], own)
    if for_tests is not None:
        settings["segment_bytes"] = int(for_tests)
    return TopicConfig(**settings)  # type: ignore[arg-type]  # each definition's type is its field's: a test holds them together


def effective_topic_value(
    image: Overrides, topic: str, name: str, *, broker_id: int = NO_BROKER, static: Mapping[str, str] | None = None
) -> ConfigValue:
    """One config of `topic`, for callers that do not need all of them."""
    return _Layers(image, broker_id, static).topic_value(TOPIC_CONFIGS[name], image.overrides("topic", topic))


def effective_broker_value(
    image: Overrides, name: str, *, broker_id: int = NO_BROKER, static: Mapping[str, str] | None = None
) -> ConfigValue | None:
    """One broker config, parsed; None when it has no value."""
    config = BROKER_CONFIGS[name]
    for setting in _Layers(image, broker_id, static).settings((name,)):
        return config.parse(setting.value)
    return None


def effective_broker_int(
    image: Overrides, name: str, *, broker_id: int = NO_BROKER, static: Mapping[str, str] | None = None
) -> int:
    """A broker config of a whole number that has a default."""
    value = effective_broker_value(image, name, broker_id=broker_id, static=static)
    assert isinstance(value, int)
    return value


def effective_broker_bool(
    image: Overrides, name: str, *, broker_id: int = NO_BROKER, static: Mapping[str, str] | None = None
) -> bool:
    """A broker config that is true or false and has a default."""
    value = effective_broker_value(image, name, broker_id=broker_id, static=static)
    assert isinstance(value, bool)
    return value


class _Layers:
    """The broker side of the order of precedence, for one broker."""

    __slots__ = ("_layers",)

    def __init__(self, image: Overrides, broker_id: int, static: Mapping[str, str] | None) -> None:
        own = image.overrides("broker", str(broker_id)) if broker_id != NO_BROKER else {}
        self._layers: tuple[tuple[Source, Mapping[str, str]], ...] = (
            (Source.DYNAMIC_BROKER, own),
            (Source.DYNAMIC_DEFAULT_BROKER, image.overrides("broker", "")),
            (Source.STATIC_BROKER, static or {}),
        )

    def settings(self, names: tuple[str, ...]) -> Iterator[Setting]:
        """The settings of any of `names`, the one in force first. As in Kafka, the level counts before the name.

        A stored value that this version cannot read, since a newer one wrote it, is passed over.
        """
        for source, values in self._layers:
            for name in names:
                if (text := own_value(broker_config(name), values)) is not None:
                    yield Setting(name, text, source)
        for name in names:
            config = broker_config(name)
            if config.default is not None:
                yield Setting(name, config.canonical(config.default), Source.DEFAULT)

    def sets(self, name: str) -> bool:
        """Whether anybody set the broker config `name`."""
        return any(own_value(BROKER_CONFIGS[name], values) is not None for _, values in self._layers)

    def topic_value(self, config: ConfigDef, own: Mapping[str, str]) -> ConfigValue:
        if (text := own_value(config, own)) is not None:
            return config.parse(text)
        for setting in self.settings(config.synonyms):
            return in_topic_unit(config, setting)
        assert config.default is not None, f"{config.name} has no value"
        return config.parse(config.default)


def is_set(image: Overrides, name: str) -> bool:
    """Whether the broker config `name` has a cluster-wide value other than its default."""
    return _Layers(image, NO_BROKER, None).sets(name)


def broker_settings(image: Overrides, names: tuple[str, ...], broker_id: int, static: Mapping[str, str] | None) -> list[Setting]:
    """The settings of any of the broker configs `names`, the one in force first."""
    return list(_Layers(image, broker_id, static).settings(names))


def in_topic_unit(config: ConfigDef, setting: Setting) -> ConfigValue:
    """A broker setting as the value of the topic config whose synonym it is."""
    value = BROKER_CONFIGS[setting.name].parse(setting.value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if config.name == "retention.ms" and value < 0:
        return -1  # any number below 0 means no limit there
    return value * UNITS_MS.get(setting.name, 1)


def own_value(config: ConfigDef, values: Mapping[str, str]) -> str | None:
    """The value of `config` in `values`, in canonical form. None when it is not set, or has a value that this version cannot
    read."""
    try:
        return config.canonical(values[config.name]) if config.name in values else None
    except ConfigError:
        return None
