"""Configs of internal topics that nobody can change."""

from collections.abc import Mapping

from libs.cluster.configs.definitions import TOPIC_CONFIGS, ConfigError
from libs.cluster.configs.resolve import own_value
from libs.cluster.topic_names import INTERNAL_TOPICS

DURABILITY, SYNCED = "durability", "synced"


def kept_synced(topic: str, values: Mapping[str, str]) -> dict[str, str]:
    """A topic's overrides, as they are stored. Raises ConfigError.

    Nodes and elections rely on internal topics being synced, whatever the cluster's default is: a committed offset never goes
    back.
    """
    if topic not in INTERNAL_TOPICS:
        return dict(values)
    durability = own_value(TOPIC_CONFIGS[DURABILITY], values)
    if durability not in (None, SYNCED):
        raise ConfigError(f"Invalid value {durability} for configuration {DURABILITY}: {topic} is always {SYNCED}")
    return {**values, DURABILITY: SYNCED}
