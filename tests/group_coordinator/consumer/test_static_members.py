"""Static members: they may leave for a while and return to their assignment under another member id."""

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.records import (
    ConsumerMemberChanged,
    ConsumerMemberRemoved,
    CurrentAssignmentChanged,
    CurrentAssignmentRemoved,
    TargetAssignmentChanged,
    TargetAssignmentRemoved,
)
from tests.group_coordinator.consumer.stage import Stage


def test_a_returning_static_member_keeps_its_partitions_and_no_other_notices() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    stage.join("b", "t")
    stage.beat("a", 1, {"t": [0]}, instance="i")
    stage.beat("b", 2)
    left = stage.leave("a", instance="i", epoch=-2)
    assert left.epoch == -2
    before = len(stage.log)
    back = stage.join("a2", "t", instance="i")
    assert (back.epoch, back.assigned) == (2, {"t": [0]})
    assert stage.group().facts.epoch == 2
    assert [type(record) for record in stage.written(before)] == [
        CurrentAssignmentRemoved,
        TargetAssignmentRemoved,
        ConsumerMemberRemoved,
        ConsumerMemberChanged,
        TargetAssignmentChanged,
        CurrentAssignmentChanged,
        CurrentAssignmentChanged,
    ]
    assert set(stage.group().members) == {"a2", "b"}


def test_partitions_of_a_static_member_are_kept_while_it_is_away() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    stage.leave("a", instance="i", epoch=-2)
    assert stage.state() == "Reconciling"
    assert stage.join("b", "t").assigned == {}


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    stage.wait(10_000)
    stage.leave("a", instance="i", epoch=-2)
    stage.wait(34_999)
    assert stage.state() == "Reconciling"
    stage.wait(1)
    assert stage.state() == "Empty"
    assert stage.group().facts.reason == "static member i left, and did not come back within 45000 ms"


def test_an_instance_that_is_there_is_not_to_be_had() -> None:
    stage = Stage()
    stage.join("a", "t", instance="i")
    refused = stage.join("b", "t", instance="i")
    assert refused.error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert (
        refused.reply.error_message
        == "Static member b with instance id i cannot join the group because the instance id is owned by a member."
    )
    assert set(stage.group().members) == {"a"}


def test_a_static_member_that_did_not_hear_that_it_joined_joins_again() -> None:
    """Kafka says 111 to it."""
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    assert stage.join("a", "t", instance="i").assigned == {"t": [0, 1]}


def test_the_former_holder_of_an_instance_is_fenced() -> None:
    stage = Stage()
    stage.join("a", "t", instance="i")
    stage.leave("a", instance="i", epoch=-2)
    stage.join("b", "t", instance="i")
    assert stage.beat("a", 1, instance="i").error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.leave("a", instance="i").error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.leave("a", instance="i", epoch=-2).error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.beat("a", 1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_nobody_has_is_not_known() -> None:
    stage = Stage()
    stage.join("a", "t")
    assert stage.beat("a", 1, instance="i").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.leave("a", instance="i").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_leaves_for_good() -> None:
    stage = Stage()
    stage.join("a", "t", instance="i")
    assert stage.leave("a", instance="i").epoch == -1
    assert stage.state() == "Empty"
    assert not stage.group().statics


def test_a_static_member_that_leaves_for_a_while_gives_up_its_revoked_partitions() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    stage.join("b", "t")
    stage.beat("a", 1, {"t": [0, 1]}, instance="i")
    stage.leave("a", instance="i", epoch=-2)
    assert stage.beat("b", 2).assigned == {"t": [1]}


def test_a_member_that_is_away_is_not_removed_for_what_it_has_not_given_up() -> None:
    stage = Stage(t=2)
    stage.configs["g"] = {"consumer.session.timeout.ms": "60000"}
    stage.join("a", "t", instance="i", rebalance_ms=5000)
    stage.join("b", "t")
    stage.beat("a", 1, {"t": [0, 1]}, instance="i")
    stage.leave("a", instance="i", epoch=-2)
    stage.wait(6000)
    assert "a" in stage.group().members
    stage.fail_over()
    stage.wait(6000)
    assert "a" in stage.group().members


def test_after_a_failover_it_still_comes_back() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", instance="i")
    stage.leave("a", instance="i", epoch=-2)
    stage.fail_over()
    assert stage.join("b", "t", instance="i").assigned == {"t": [0, 1]}
