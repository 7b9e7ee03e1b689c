"""The rate of throttled replicas."""

import pytest

from services.storage.core.replication.throttle import CopyAllowance, is_throttled


def test_a_replica_that_took_too_much_waits_until_the_rate_has_caught_up() -> None:
    allowance = CopyAllowance()
    assert allowance.take(500, 1000, 100.0) == 0.0
    assert allowance.take(1500, 1000, 100.0) == pytest.approx(1.0)
    assert allowance.take(1000, 1000, 101.0) == pytest.approx(1.0)


def test_an_unused_rate_is_no_credit_without_bound() -> None:
    allowance = CopyAllowance()
    allowance.take(1, 1000, 0.0)
    assert allowance.take(2000, 1000, 1e6) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("replicas", "throttled"), [("", False), ("*", True), ("0:1,3:2", True), ("3:1", False), ("13:2", False), ("0:1, 3:2", True)]
)
def test_replicas_are_throttled_by_name_or_all_together(replicas: str, throttled: bool) -> None:
    assert is_throttled(replicas, 3, 2) is throttled
