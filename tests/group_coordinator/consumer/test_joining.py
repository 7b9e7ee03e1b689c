"""Members come, are refused, get partitions, and go."""

from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from services.group_coordinator.core.consumer.group import Group
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.records import (
    ConsumerGroupChanged,
    ConsumerMemberChanged,
    ConsumerMemberRemoved,
    CurrentAssignmentChanged,
    CurrentAssignmentRemoved,
    TargetAssignmentChanged,
    TargetAssignmentRemoved,
    TargetEpochChanged,
)
from tests.group_coordinator.consumer.stage import Stage


def kinds(records: list[object]) -> list[type]:
    return [type(record) for record in records]


def test_the_first_member_gets_all_at_once() -> None:
    stage = Stage(t=3)
    joined = stage.join("a", "t")
    assert (joined.epoch, joined.assigned) == (1, {"t": [0, 1, 2]})
    assert joined.reply.member_id == "a"
    assert joined.reply.heartbeat_interval_ms == 5000
    assert stage.state() == "Stable"


def test_a_join_writes_kafkas_records_in_kafkas_order() -> None:
    stage = Stage()
    stage.join("a", "t")
    assert kinds(stage.written()) == [
        ConsumerMemberChanged,
        ConsumerGroupChanged,
        TargetAssignmentChanged,
        TargetEpochChanged,
        CurrentAssignmentChanged,
    ]


def test_a_leave_writes_kafkas_tombstones_in_kafkas_order() -> None:
    stage = Stage()
    stage.join("a", "t")
    before = len(stage.log)
    assert stage.leave("a").epoch == -1
    assert kinds(stage.written(before)) == [
        CurrentAssignmentRemoved,
        TargetAssignmentRemoved,
        ConsumerMemberRemoved,
        ConsumerGroupChanged,
    ]
    assert stage.state() == "Empty"
    assert stage.group().facts.epoch == 2


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_says_nothing() -> None:
    stage = Stage()
    stage.join("a", "t")
    before = len(stage.log)
    again = stage.beat("a", 1)
    assert (again.epoch, again.assigned, len(stage.log)) == (1, None, before)


def test_nothing_is_copied_for_a_heartbeat_that_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.join("a", "t")
    monkeypatch.setattr(Group, "scratch", None)
    assert stage.beat("a", 1).epoch == 1
    with pytest.raises(TypeError):
        stage.beat("a", 1, topics=["u"])


def test_a_full_request_is_answered_in_full() -> None:
    stage = Stage(t=2)
    stage.join("a", "t")
    before = len(stage.log)
    full = stage.beat("a", 1, {"t": [0, 1]}, topics=["t"], rebalance_ms=60_000)
    assert (full.assigned, len(stage.log)) == ({"t": [0, 1]}, before)


def test_a_member_that_joins_again_keeps_its_partitions() -> None:
    """Its client was fenced, or did not hear the answer."""
    stage = Stage(t=2)
    stage.join("a", "t")
    before = len(stage.log)
    again = stage.join("a", "t")
    assert (again.epoch, again.assigned, len(stage.log)) == (1, {"t": [0, 1]}, before)


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("MemberId can't be empty.", {"member_id": ""}),
        ("MemberId can't be empty.", {"member_id": "", "member_epoch": 1, "version": 0}),
        ("MemberId can't be empty.", {"member_id": "", "member_epoch": -1, "version": 0}),
        ("GroupId can't be empty.", {"group_id": ""}),
        ("InstanceId can't be empty.", {"instance_id": ""}),
        ("RackId can't be empty.", {"rack_id": ""}),
        ("RebalanceTimeoutMs must be provided in first request.", {"rebalance_timeout_ms": -1}),
        ("TopicPartitions must be empty when (re-)joining.", {"topic_partitions": None}),
        (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            {"subscribed_topic_names": None},
        ),
        ("InstanceId can't be null.", {"member_epoch": -2}),
        ("MemberEpoch is invalid.", {"member_epoch": -3}),
    ],
)
def test_requests_that_make_no_sense_are_invalid(message: str, how: dict[str, object]) -> None:
    stage = Stage()
    version = how.pop("version", 1)
    fields = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    } | how
    refused = stage.ask(ConsumerGroupHeartbeatRequest(**fields), version)  # type: ignore[arg-type]
    assert (refused.error, refused.reply.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not stage.groups
    assert not stage.log


def test_version_0_gives_a_member_id() -> None:
    stage = Stage()
    joined = stage.join("", "t", version=0)
    assert joined.reply.member_id == "id0"
    assert stage.beat("id0", joined.epoch).epoch == 1


def test_an_assignor_that_is_not_offered_is_refused() -> None:
    refused = Stage().join("a", "t", assignor="sticky")
    assert refused.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.reply.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."


def test_a_group_that_is_not_there_is_joined_and_nothing_else() -> None:
    stage = Stage()
    assert stage.beat("a", 1).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.leave("a").error == ErrorCode.GROUP_ID_NOT_FOUND
    assert not stage.groups


def test_an_unknown_member_is_refused() -> None:
    stage = Stage()
    stage.join("a", "t")
    assert stage.beat("b", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.leave("b").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(stage.group().members) == {"a"}


def test_a_full_group_lets_nobody_in_and_its_members_stay() -> None:
    stage = Stage()
    stage.settings = ConsumerSettings(size_max=1)
    stage.join("a", "t")
    assert stage.join("b", "t").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.beat("a", 1).error == 0
    assert stage.join("a", "t").error == 0


def test_the_protocol_can_be_switched_off() -> None:
    stage = Stage()
    stage.settings = ConsumerSettings(enabled=False)
    assert stage.join("a", "t").error == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_has_its_own_intervals() -> None:
    stage = Stage()
    stage.configs["g"] = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "50000"}
    assert stage.join("a", "t").reply.heartbeat_interval_ms == 7000
    stage.wait(49_999)
    assert stage.state() == "Stable"
    stage.wait(1)
    assert stage.state() == "Empty"


def test_a_silent_member_is_removed_and_the_reason_is_kept() -> None:
    stage = Stage()
    stage.join("a", "t")
    stage.wait(44_999)
    stage.beat("a", 1)
    stage.wait(44_999)
    assert stage.state() == "Stable"
    stage.wait(1)
    assert stage.state() == "Empty"
    assert stage.group().facts.reason == "member a was silent for 45000 ms"
    assert stage.beat("a", 1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_a_subscription_has_no_partitions() -> None:
    stage = Stage()
    stage.join("a", "t")
    joined = stage.join("b")
    assert (joined.epoch, joined.assigned) == (1, {})
    assert stage.state() == "Stable"


def test_null_is_as_before() -> None:
    stage = Stage()
    stage.join("a", "t", assignor="range", rack="r")
    stage.beat("a", 1)
    member = stage.group().members["a"]
    assert (member.topics, member.assignor, member.rack_id, member.rebalance_timeout_ms) == (("t",), "range", "r", 60_000)


def test_a_client_elsewhere_is_noted_and_nothing_is_assigned_anew() -> None:
    stage = Stage()
    joined = stage.join("a", "t")
    before = len(stage.log)
    stage.ask(type(joined.request)("g", "a", 1), host="/10.0.0.1")
    (record,) = stage.written(before)
    assert isinstance(record, ConsumerMemberChanged)
    assert record.client_host == "/10.0.0.1"


@pytest.mark.parametrize("how", [{"group": "g" * 40_000}, {"rack": "r" * 70_000}, {"instance": "i" * 70_000}])
def test_a_join_that_fits_in_no_record_is_refused_and_changes_nothing(how: dict[str, Any]) -> None:
    stage = Stage()
    with pytest.raises(ValueError):
        stage.join("a", "t", **how)
    ((_, error, _),) = stage.shard.take_answers()
    assert error == -1
    assert not stage.groups
    assert stage.join("b", "t").error == 0
