"""Refusals before anything is written, with Kafka's numbers."""

from libs.cluster.configs.resolve import BY_FACTOR
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import effective_min_in_sync, refuse_acks, refuse_caller_epoch, refuse_client_epoch


def test_an_epoch_from_a_client_is_fenced_or_unknown() -> None:
    assert refuse_client_epoch(-1, 5) == 0
    assert refuse_client_epoch(5, 5) == 0
    assert refuse_client_epoch(4, 5) == 74
    assert refuse_client_epoch(6, 5) == 75


def test_an_older_image_that_finds_the_leader_is_served() -> None:
    assert refuse_caller_epoch(4, 5) is None
    assert refuse_caller_epoch(5, 5) is None
    assert refuse_caller_epoch(-1, 5) is None


def test_a_newer_image_is_refused_without_a_hint() -> None:
    refusal = refuse_caller_epoch(6, 5)
    assert refusal is not None
    assert (refusal.error, refusal.leader, refusal.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 5)


def test_acks_are_0_1_or_all_and_all_needs_enough_replicas() -> None:
    assert [refuse_acks(acks, 1, 1) for acks in (0, 1, -1, 7, -2)] == [0, 0, 0, 21, 21]
    assert [refuse_acks(acks, 1, 2) for acks in (0, 1, -1)] == [0, 0, 19]


def test_a_minimum_above_the_replication_factor_means_all_of_them() -> None:
    assert effective_min_in_sync(3, 1) == 1
    assert effective_min_in_sync(2, 3) == 2
    assert [effective_min_in_sync(BY_FACTOR, factor) for factor in (1, 2, 3, 5)] == [1, 1, 2, 2]
