"""What an operator decides about groups. Kafka's names stand beside what they set; the defaults are Kafka's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from services.group_coordinator.core.classic.settings import ClassicSettings
from services.group_coordinator.core.consumer.settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, ConsumerSettings

_MINUTE_MS: Final = 60_000


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: whether a group with members changes its protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    """From classic to consumer."""
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Immutable: settings that change are a new one, read at the next decision."""

    classic: ClassicSettings = field(default_factory=ClassicSettings)
    offset_metadata_max: int = 4096
    """offset.metadata.max.bytes: in UTF-16 units, whatever its name says."""
    offsets_retention_ms: int = 10_080 * _MINUTE_MS
    """offsets.retention.minutes"""
    offsets_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
    commit_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: whatever is written"""
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)
    heartbeat_interval_bounds_ms: tuple[int, int] = (5_000, 15_000)
    """group.consumer.min.heartbeat.interval.ms and max: of a group's own."""
    session_timeout_bounds_ms: tuple[int, int] = (45_000, 60_000)
    """group.consumer.min.session.timeout.ms and max: of a group's own."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    @property
    def consumer_size_max(self) -> int:
        return self.consumer.size_max

    @classmethod
    def from_configs(cls, value: Callable[[str], str]) -> "GroupSettings":
        """`value`: a broker config in effect, as text, by Kafka's name. Raises ValueError for what is none."""

        def number(name: str) -> int:
            return int(value(name))

        def listed(name: str) -> tuple[str, ...]:
            return tuple(one.strip() for one in value(name).split(",") if one.strip())

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
        """Configs of one group. Bounds may have been drawn tighter after it was configured."""
        if not configs:
            return configs
        found = dict(configs)
        for name, (least, most) in (
            (HEARTBEAT_INTERVAL, self.heartbeat_interval_bounds_ms),
            (SESSION_TIMEOUT, self.session_timeout_bounds_ms),
        ):
            if name in found:
                found[name] = str(min(max(int(found[name]), least), most))
        return found
