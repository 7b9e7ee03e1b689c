"""Settings of groups of the consumer protocol, with Kafka's names and defaults."""

from collections.abc import Mapping
from typing import Final

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    enabled: bool = True
    """Whether group.coordinator.rebalance.protocols has `consumer`."""
    session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms"""
    size_max: int = 2**31 - 1
    """group.consumer.max.size"""
    assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors. The first is the default."""
    regex_refresh_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms"""


SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


def session_timeout_ms(settings: ConsumerSettings, configs: Mapping[str, str]) -> int:
    """The group's session timeout. `configs` are the group's own; they were checked when they were set."""
    own = configs.get(SESSION_TIMEOUT)
    return settings.session_timeout_ms if own is None else int(own)


def heartbeat_interval_ms(settings: ConsumerSettings, configs: Mapping[str, str]) -> int:
    own = configs.get(HEARTBEAT_INTERVAL)
    return settings.heartbeat_interval_ms if own is None else int(own)
