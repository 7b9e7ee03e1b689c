"""Settings of groups, with Kafka's names and defaults."""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final

from libs.lean_dataclass import dataclass
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.consumer_settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, ConsumerSettings

_MINUTE_MS: Final = 60_000


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: which conversions are allowed for groups with members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    """From classic to consumer."""
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """All settings of groups. Immutable: changed settings are a new object, read at the next decision."""

    classic: ClassicSettings = field(default_factory=ClassicSettings)
    offset_metadata_max: int = 4096
    """offset.metadata.max.bytes, which counts UTF-16 units in spite of its name."""
    offsets_retention_ms: int = 10_080 * _MINUTE_MS
    """offsets.retention.minutes"""
    offsets_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
    commit_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms, for all records."""
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    heartbeat_interval_bounds_ms: tuple[int, int] = (5_000, 15_000)
    """group.consumer.min.heartbeat.interval.ms and max: the bounds of a group's own value."""
    session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    """group.consumer.min.session.timeout.ms and max: the bounds of a group's own value."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    @property
    def consumer_size_max(self) -> int:
        return self.consumer.size_max

    @classmethod
    def from_configs(cls, value: Callable[[str], str]) -> "GroupSettings":
        """The settings from broker configs. `value` returns a config in effect, as text. Raises ValueError for an invalid one."""

        def number(name: str) -> int:
            return int(value(name))

        def listed(name: str) -> tuple[str, ...]:
            return tuple(item.strip() for item in value(name).split(",") if item.strip())

        return cls(
            ClassicSettings(
                session_timeout_ms_min=number("group.min.session.timeout.ms"),
                session_timeout_ms_max=number("group.max.session.timeout.ms"),
                initial_delay_ms=number("group.initial.rebalance.delay.ms"),
                size_max=number("group.max.size"),
            ),
            offset_metadata_max=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * _MINUTE_MS,
            offsets_check_interval_ms=number("offsets.retention.check.interval.ms"),
            commit_timeout_ms=number("offsets.commit.timeout.ms"),
            consumer=ConsumerSettings(
                enabled="consumer" in listed("group.coordinator.rebalance.protocols"),
                session_timeout_ms=number("group.consumer.session.timeout.ms"),
                heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
                size_max=number("group.consumer.max.size"),
                assignors=listed("group.consumer.assignors"),
                regex_refresh_ms=number("group.consumer.regex.refresh.interval.ms"),
            ),
            heartbeat_interval_bounds_ms=(
                number("group.consumer.min.heartbeat.interval.ms"),
                number("group.consumer.max.heartbeat.interval.ms"),
            ),
            session_timeout_bounds_ms=(
                number("group.consumer.min.session.timeout.ms"),
                number("group.consumer.max.session.timeout.ms"),
            ),
            consumer_migration_policy=MigrationPolicy(value("group.consumer.migration.policy").lower()),
        )

    def within_bounds(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """One group's configs, within the bounds. The bounds may have changed after the group was configured."""
        if not configs:
            return configs
        bounded = dict(configs)
        for name, (least, most) in (
            (HEARTBEAT_INTERVAL, self.heartbeat_interval_bounds_ms),
            (SESSION_TIMEOUT, self.session_timeout_bounds_ms),
        ):
            if name in bounded:
                bounded[name] = str(min(max(int(bounded[name]), least), most))
        return bounded
