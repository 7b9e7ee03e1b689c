"""Checks of commits and fetches, views for operators, and the removal of a group."""

from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.model import records
from tests.group_coordinator.consumer.checks import compacted, loaded
from tests.group_coordinator.consumer.stage import Stage


def commit_error(stage: Stage, member_id: str, epoch: int, version: int) -> ErrorCode:
    return stage.consumer.commit_error("g", OffsetCommitRequest("g", epoch, member_id), version)


def test_members_commit_with_their_epoch() -> None:
    stage = Stage()
    stage.join("a", "t")
    assert commit_error(stage, "a", 1, 9) == ErrorCode.NONE
    assert commit_error(stage, "a", 0, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit_error(stage, "a", 2, 10) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit_error(stage, "a", 1, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit_error(stage, "b", 1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_error(stage, "", -1, 9) == ErrorCode.UNKNOWN_MEMBER_ID


def test_anybody_commits_for_an_empty_group() -> None:
    stage = Stage()
    stage.join("a", "t")
    stage.leave("a")
    assert commit_error(stage, "", -1, 9) == ErrorCode.NONE
    assert commit_error(stage, "a", 1, 9) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_fetch_with_their_epoch_and_others_without() -> None:
    stage = Stage()
    stage.join("a", "t")
    fetch = stage.consumer.fetch_error
    assert fetch("g", None, -1) == ErrorCode.NONE
    assert fetch("g", "a", 1) == ErrorCode.NONE
    assert fetch("g", "a", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("g", "b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch("g", "", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_described_with_its_epochs_and_targets() -> None:
    stage = Stage(t=2)
    stage.join("a", "t", assignor="range", rack="r")
    stage.join("b", "t", instance="i")
    group = stage.consumer.describe_as_consumer_group("g", 1)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Reconciling", 2, 2)
    assert group.assignor_name == "range"
    a, b = sorted(group.members, key=lambda member: member.member_id)
    assert (a.member_epoch, b.member_epoch, a.rack_id, b.instance_id) == (1, 2, "r", "i")
    assert [(t.topic_name, t.partitions) for t in a.assignment.topic_partitions] == [("t", [0, 1])]
    assert [(t.topic_name, t.partitions) for t in a.target_assignment.topic_partitions] == [("t", [1])]
    assert b.assignment.topic_partitions == []
    assert (a.member_type, a.subscribed_topic_names, a.client_host) == (1, ["t"], "/127.0.0.1")


def test_to_describe_groups_it_is_no_group() -> None:
    stage = Stage()
    stage.join("a", "t")
    old, new = (stage.consumer.describe_as_classic_group("g", version) for version in (5, 6))
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")


def test_groups_are_listed_by_state_and_kind() -> None:
    stage = Stage()
    stage.join("a", "t")
    stage.join("b", "t", group="h")
    stage.leave("b", group="h")
    listed = stage.consumer.listed
    assert [(group.group_id, group.group_state, group.group_type) for group in listed([], [])] == [
        ("g", "Stable", "consumer"),
        ("h", "Empty", "consumer"),
    ]
    assert [group.group_id for group in listed(["stable"], ["Consumer"])] == ["g"]
    assert listed([], ["classic"]) == []


def test_only_an_empty_group_is_removed() -> None:
    stage = Stage()
    stage.join("a", "t")
    assert stage.consumer.deletion_error("g") == ErrorCode.NON_EMPTY_GROUP
    stage.leave("a")
    assert stage.consumer.deletion_error("g") == ErrorCode.NONE


def test_nothing_is_left_of_a_removed_group() -> None:
    stage = Stage(t=2)
    stage.join("a", regex="t")
    stage.leave("a")
    removal = stage.consumer.tombstones("g")
    assert removal == [
        records.TargetEpochRemoved("g"),
        records.ConsumerTopicsRemoved("g"),
        records.ConsumerGroupRemoved("g"),
    ]
    machine = stage.shard.machine
    for record in removal:
        machine.replay(record)
        stage.log.append(machine.encode(record))  # type: ignore[arg-type]
    assert not stage.groups
    assert loaded(stage, stage.log) == {}
    assert compacted(stage.log, tombstones=False) == []


def test_tombstones_of_groups_that_are_gone_do_nothing() -> None:
    stage = Stage()
    for record in (
        records.ConsumerMemberRemoved("x", "a"),
        records.CurrentAssignmentRemoved("x", "a"),
        records.TargetAssignmentRemoved("x", "a"),
        records.RegularExpressionRemoved("x", "t"),
        records.TargetEpochRemoved("x"),
        records.ConsumerTopicsRemoved("x"),
        records.ConsumerGroupRemoved("x"),
    ):
        assert stage.consumer.replay(record)
    assert not stage.groups


def test_records_of_other_kinds_are_left_to_others() -> None:
    assert not Stage().consumer.replay(records.ClassicGroupRemoved("x"))


def test_owned_partitions_may_come_before_the_subscription() -> None:
    """As in a compacted log, after its subscription changed."""
    stage = Stage(t=2)
    stage.join("a", "t")
    stage.beat("a", 1, topics=["t", "u"])
    log = compacted(stage.log, tombstones=True)
    assert loaded(stage, log) == loaded(stage, stage.log)


def test_a_member_whose_state_nobody_knows_begins_anew() -> None:
    stage = Stage(t=2)
    stage.join("a", "t")
    has = stage.group().members["a"].assignment_record("g")
    stage.consumer.replay(
        records.CurrentAssignmentChanged("g", "a", 1, 1, records.MemberState.UNKNOWN, has.assigned, has.pending_revocation)
    )
    assert stage.beat("a", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.beat("a", 1, {"t": [0]}).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.join("a", "t").assigned == {"t": [0, 1]}
    assert stage.state() == "Stable"
