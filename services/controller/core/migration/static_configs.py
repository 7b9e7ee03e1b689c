"""What the `server.properties` of a Kafka's brokers set for all topics, and for the whole cluster.

Each of them becomes a cluster-wide default, under the name that can be changed while a cluster runs: `log.retention.hours=720`
becomes `log.retention.ms=2592000000`. Without them, retention would delete records that Kafka kept.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from libs.cluster.configs.broker_table import AT_START
from libs.cluster.configs.connection_table import CONNECTION_CONFIGS, check_connection_limits
from libs.cluster.configs.definitions import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef, ConfigError
from libs.cluster.configs.group_settings import check_coordinators
from libs.cluster.configs.resolve import MIN_IN_SYNC, Setting, Source, effective_topic_value, in_topic_unit
from libs.cluster.configs.values import show
from libs.cluster.image import ClusterImage
from services.controller.core.migration.errors import CannotAdopt

UNSET: Final = "unset"
_OF_TOPICS: Final = {topic.synonyms[0]: topic for topic in TOPIC_CONFIGS.values() if topic.synonyms and topic.served}
"""The topic configs by the broker config that sets their default while a cluster runs."""
_OF_THE_CLUSTER: Final = {
    config.name: config
    for config in BROKER_CONFIGS.values()
    if config.effect and config.served and config.name not in _OF_TOPICS and not (config.read_only or config.one_broker)
}
_SYNONYMS: Final = {name for topic in TOPIC_CONFIGS.values() for name in topic.synonyms}
_AT_START_ONLY: Final = sorted(
    name for name in AT_START - _SYNONYMS if BROKER_CONFIGS[name].effect and BROKER_CONFIGS[name].read_only
)

_OF_CONNECTIONS: Final = frozenset(config.name for config in CONNECTION_CONFIGS)


def static_values(broker: int, properties: Mapping[str, str]) -> dict[str, str]:
    """The cluster-wide configs that a broker's properties come to. Raises CannotAdopt for a value that cannot be read."""
    values: dict[str, str] = {}
    try:
        for name, topic in _OF_TOPICS.items():
            if given := next((each for each in topic.synonyms if each in properties), None):
                setting = Setting(given, properties[given], Source.STATIC_BROKER)
                values[name] = show(in_topic_unit(topic, setting))
        for name in _OF_THE_CLUSTER.keys() & properties.keys():
            values[name] = BROKER_CONFIGS[name].canonical(properties[name])
        for name, value in values.items():
            BROKER_CONFIGS[name].validate(value)
    except ConfigError as error:
        raise CannotAdopt(f"server.properties of broker {broker}: {error}") from error
    return values


def cluster_defaults(by_broker: Mapping[int, Mapping[str, str]], dynamic: Mapping[str, str]) -> dict[str, str]:
    """The cluster-wide defaults that the properties of all brokers come to, without those that `dynamic` overrides. Raises
    CannotAdopt where brokers differ."""
    values = {broker: static_values(broker, properties) for broker, properties in sorted(by_broker.items())}
    names = sorted({name for each in values.values() for name in each} - dynamic.keys())
    defaults: dict[str, str] = {}
    for name in names:
        texts = {broker: each.get(name, _default(name)) for broker, each in values.items()}
        if len(set(texts.values())) > 1:
            listed = ", ".join(f"{text} on broker {broker}" for broker, text in texts.items())
            raise CannotAdopt(
                f"brokers differ in {name}: {listed}. Start Kafka and choose one for all, "
                f"with kafka-configs.sh --entity-type brokers --entity-default --alter --add-config {name}=…"
            )
        defaults[name] = next(iter(texts.values()))
    try:
        check_coordinators({**defaults, **dynamic})
        check_connection_limits({**defaults, **dynamic})
    except ConfigError as error:
        raise CannotAdopt(f"server.properties: {error}") from error
    return defaults


def _default(name: str) -> str:
    config: ConfigDef = _OF_TOPICS.get(name, BROKER_CONFIGS[name])
    return UNSET if config.default is None else config.canonical(config.default)


def start_notes(by_broker: Mapping[int, Mapping[str, str]]) -> list[str]:
    """What only the start of a storage node can be given."""
    return [
        f"broker {broker}: {name}={properties[name]} is read at a start: give it to the storage node by PENSTOCK_BROKER_CONFIGS"
        for broker, properties in sorted(by_broker.items())
        for name in _AT_START_ONLY
        if name in properties
    ]


def gateway_notes(defaults: Mapping[str, str]) -> list[str]:
    """What held for each of Kafka's brokers, and holds for each gateway."""
    return [
        f"{name}={value} held for each broker, and holds for each gateway, over the ports of all brokers: multiply it by the "
        "number of brokers, and divide it by that of gateways"
        for name, value in sorted(defaults.items())
        if name in _OF_CONNECTIONS
    ]


def unknown_note(image: ClusterImage, brokers: Sequence[int]) -> str:
    """What holds for topics without configs of their own where no server.properties was given."""
    listed = ", ".join(map(str, brokers))
    names = ("retention.ms", "retention.bytes", "cleanup.policy")
    held = ", ".join(f"{name}={show(effective_topic_value(image, '', name))}" for name in names)
    return (
        f"broker {listed}: its server.properties was not given. Topics without configs of their own have {held}: "
        f"give server.properties in place of the directories if Kafka had other log.* or {MIN_IN_SYNC}"
    )
