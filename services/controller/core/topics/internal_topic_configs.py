"""What the configs of coordinators' topics say whoever sets them."""

from collections.abc import Mapping

from libs.cluster.configs.definitions import TOPIC_CONFIGS, ConfigError
from libs.cluster.configs.resolve import own_value
from libs.cluster.topic_names import INTERNAL_TOPICS

DURABILITY, SYNCED = "durability", "synced"


def kept_synced(topic: str, values: Mapping[str, str]) -> dict[str, str]:
    """All of a topic's overrides, as they are to be stored. Raises ConfigError.

    Nodes and elections take it for granted that what a coordinator was told is committed is on disks, whatever the cluster's
    default is: a committed offset never goes back.
    """
    if topic not in INTERNAL_TOPICS:
        return dict(values)
    asked = own_value(TOPIC_CONFIGS[DURABILITY], values)
    if asked not in (None, SYNCED):
        raise ConfigError(f"Invalid value {asked} for configuration {DURABILITY}: {topic} is always {SYNCED}")
    return {**values, DURABILITY: SYNCED}
