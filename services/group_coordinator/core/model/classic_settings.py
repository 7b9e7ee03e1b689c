"""Settings of classic groups, with Kafka's names and defaults."""

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    session_timeout_ms_min: int = 6_000
    """group.min.session.timeout.ms"""
    session_timeout_ms_max: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    size_max: int = 2**31 - 1
    """group.max.size"""
    new_member_join_ms_max: int = 300_000
    """A new member is removed when it has waited for so long."""
