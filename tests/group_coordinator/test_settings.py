"""Settings of groups are the cluster's broker configs, as they are now."""

from typing import Final

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.configs.group_table import COORDINATOR_CONFIGS
from libs.cluster.image import ClusterImage
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import WatchBatch, WatchEvent
from services.group_coordinator.core.model.settings import GroupSettings, MigrationPolicy
from services.group_coordinator.metadata.settings import Settings

DEFAULTS: Final = {
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.size": "2147483647",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.commit.timeout.ms": "5000",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.regex.refresh.interval.ms": "600000",
    "group.consumer.migration.policy": "bidirectional",
}
"""All that coordinators read, as Kafka 4.2 has them."""


def changed(image: ClusterImage, values: dict[str, str], broker: str = "") -> ClusterImage:
    revision = image.revision + 1
    event = WatchEvent(keys.config("broker", broker), encode(ConfigOverrides(values)), revision, revision)
    return image.apply(WatchBatch((event,), revision))


def test_at_first_they_are_kafkas_defaults() -> None:
    assert Settings().current == GroupSettings() == GroupSettings.from_configs(DEFAULTS.__getitem__)


def test_every_config_of_coordinators_is_read() -> None:
    """None is taken and ignored."""
    assert DEFAULTS.keys() == {config.name for config in COORDINATOR_CONFIGS}
    read: set[str] = set()

    def value(name: str) -> str:
        read.add(name)
        return DEFAULTS[name]

    GroupSettings.from_configs(value)
    assert read == DEFAULTS.keys()


def test_they_follow_the_cluster_wide_configs() -> None:
    followed = Settings()
    image = changed(ClusterImage(), {"group.max.size": "7", "group.consumer.assignors": "range"})
    followed.follow(image)
    assert (followed.current.classic.size_max, followed.current.consumer.assignors) == (7, ("range",))
    image = changed(image, {"offsets.retention.minutes": "2", "group.consumer.migration.policy": "UPGRADE"})
    followed.follow(image)
    assert (followed.current.classic.size_max, followed.current.offsets_retention_ms) == (2**31 - 1, 120_000)
    assert followed.current.consumer_migration_policy is MigrationPolicy.UPGRADE
    followed.follow(changed(image, {"offsets.commit.timeout.ms": "250", "group.consumer.regex.refresh.interval.ms": "10000"}))
    assert (followed.current.commit_timeout_ms, followed.current.consumer.regex_refresh_ms) == (250, 10_000)


def test_configs_of_a_single_broker_decide_nothing() -> None:
    followed = Settings()
    followed.follow(changed(ClusterImage(), {"group.max.size": "7"}, broker="1"))
    assert followed.current == GroupSettings()


def test_unreadable_configs_leave_the_former_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Settings()
    image = changed(ClusterImage(), {"group.max.size": "7"})
    followed.follow(image)
    former = followed.current

    def refuse(*_: object) -> GroupSettings:
        raise ValueError("of a newer version")

    monkeypatch.setattr(GroupSettings, "from_configs", refuse)
    followed.follow(changed(image, {"group.max.size": "8"}))
    assert followed.current is former
