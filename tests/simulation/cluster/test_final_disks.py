"""The comparison of a recovered disk with one that was rebuilt of its batches."""

from dataclasses import replace

from tests.simulation.cluster.final_disks import Recovered, differences

WAS = Recovered(0, 10, "c0ffee", ((0, 0),), {2: (0, 7)})
SILENT = replace(WAS, producers={1: (0, 3), 2: (0, 7)})


def test_a_producer_that_recovery_does_not_know_is_a_difference() -> None:
    assert differences("rebuilt", {"orders-0": WAS}, {"orders-0": SILENT}) != []
    assert differences("rebuilt", {"orders-0": SILENT}, {"orders-0": WAS}, some_expired=True) != []


def test_a_producer_that_may_have_expired_is_none() -> None:
    assert differences("rebuilt", {"orders-0": WAS}, {"orders-0": SILENT}, some_expired=True) == []


def test_other_differences_are_seen_where_producers_have_expired() -> None:
    for other in (replace(SILENT, end=9), replace(SILENT, content="beef"), replace(WAS, producers={2: (0, 6)})):
        assert differences("rebuilt", {"orders-0": WAS}, {"orders-0": other}, some_expired=True) != []
    assert differences("rebuilt", {"orders-0": WAS}, {}, some_expired=True) != []
