"""All kinds of groups in one shard: the kind of a group, its change, and the views for operators."""

from collections.abc import Iterator
from typing import Any

import pytest

from libs.coordinator.core.decisions import Expired
from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from libs.wire.messages.list_groups import ListGroupsRequest
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.consumer_settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from services.group_coordinator.core.model.records import ClassicGroupRemoved, ConsumerGroupRemoved
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.settings import GroupSettings
from tests.group_coordinator.consumer_heartbeats import beat, join_consumer
from tests.group_coordinator.offsets.stage import CHECK_MS, HOUR_MS, RETENTION_MS, GroupStage, reads


def leave_consumer(stage: GroupStage, name: str = "g", member_id: str = "m") -> None:
    assert beat(stage, member_id, -1, name=name).error == 0


def test_groups_of_each_kind_are_listed_and_described_as_what_they_are() -> None:
    stage = GroupStage()
    stage.member("t", name="c")
    join_consumer(stage, "t", name="k")
    stage.commit({("t", 0): 1}, name="s")
    assert {name: (kind, state) for name, (_, state, kind) in stage.listed().items()} == {
        "c": ("classic", "Stable"),
        "k": ("consumer", "Stable"),
        "s": ("classic", "Empty"),
    }
    assert set(stage.listed(["stable"])) == {"c", "k"}
    assert set(stage.listed(types=["Classic"])) == {"c", "s"}
    assert set(stage.listed(["EMPTY"], ["classic"])) == {"s"}
    assert stage.listed(["odd"]) == stage.listed(types=["odd"]) == stage.listed(["Empty"], ["consumer"]) == {}
    described = {name: stage.describe(name) for name in ("c", "k", "s", "n")}
    assert {name: (item.error_code, item.error_message, item.group_state) for name, item in described.items()} == {
        "c": (0, None, "Stable"),
        "k": (69, "Group k is not a classic group.", "Dead"),
        "s": (0, None, "Empty"),
        "n": (69, "Group n not found.", "Dead"),
    }
    old = {name: stage.describe(name, version=5) for name in ("k", "n")}
    assert {name: (item.error_code, item.error_message, item.group_state) for name, item in old.items()} == {
        "k": (0, None, "Dead"),
        "n": (0, None, "Dead"),
    }
    answer = {name: stage.describe_consumer(name) for name in ("c", "k", "s", "n")}
    assert {name: (item.error_code, item.error_message, item.group_state) for name, item in answer.items()} == {
        "c": (69, "Group c is not a consumer group.", ""),
        "k": (0, None, "Stable"),
        "s": (69, "Group s is not a consumer group.", ""),
        "n": (69, "Group n not found.", ""),
    }


class Counted(list[str]):
    looked_at = 0

    def __iter__(self) -> Iterator[str]:
        self.looked_at += 1
        return super().__iter__()


def test_filters_are_looked_at_as_often_for_many_groups_as_for_few() -> None:
    """A hundred thousand states, once for each group, held a coordinator up for as long as there were groups."""
    stage = GroupStage()
    looked_at = []
    for _ in range(2):
        for number in range(10):
            stage.member("t", name=f"classic {len(looked_at)} {number}")
            join_consumer(stage, "t", name=f"consumer {len(looked_at)} {number}")
            stage.commit({("t", 0): 1}, name=f"simple {len(looked_at)} {number}")
        states, kinds = Counted(["stable", "Empty"]), Counted(["Classic", "consumer"])
        result = stage.ask(ListGroupsRequest(states, kinds), 5).reply.groups
        assert len(result) == 30 * (1 + len(looked_at))
        looked_at.append(states.looked_at + kinds.looked_at)
    assert looked_at[0] == looked_at[1]


def test_groups_without_a_name_come_first_and_are_refused_as_consumer_groups() -> None:
    stage = GroupStage()
    reply = stage.ask(ConsumerGroupDescribeRequest(["n", ""]), 1).reply
    assert [(item.group_id, item.error_code, item.error_message) for item in reply.groups] == [
        ("", 24, None),
        ("n", 69, "Group n not found."),
    ]


def test_authorized_operations_are_answered_only_on_request_and_for_existing_groups() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 1})
    assert stage.describe(operations=True).authorized_operations == 3400
    assert stage.describe().authorized_operations == stage.describe("n", operations=True).authorized_operations == -(2**31)
    join_consumer(stage, "t", name="k")
    reply = stage.ask(ConsumerGroupDescribeRequest(["k", "n"], True), 1).reply
    assert [item.authorized_operations for item in reply.groups] == [3400, -(2**31)]


# -- from one protocol to the other -------------------------------------------------------------------------------------------


def test_a_simple_group_becomes_one_of_the_consumer_protocol_and_keeps_its_offsets() -> None:
    stage = GroupStage()
    stage.commit({("t", 0): 5})
    join_consumer(stage, "t")
    assert stage.listed()["g"][1:] == ("Stable", "consumer")
    assert stage.fetch() == {("t", 0): 5}
    stage.fail_over()
    assert stage.listed()["g"][2] == "consumer"
    assert stage.fetch() == {("t", 0): 5}


def test_an_empty_classic_group_becomes_one_of_the_consumer_protocol() -> None:
    stage = GroupStage()
    member_id, generation = stage.member("t")
    stage.commit({("t", 0): 5}, member_id=member_id, generation=generation)
    stage.leave(member_id)
    join_consumer(stage, "t")
    assert ClassicGroupRemoved("g") in stage.written()
    for _ in range(2):
        assert list(stage.machine.classic.groups) == []
        assert stage.listed()["g"][1:] == ("Stable", "consumer")
        assert stage.fetch() == {("t", 0): 5}
        stage.fail_over()


def test_an_empty_consumer_group_becomes_classic() -> None:
    stage = GroupStage()
    epoch = join_consumer(stage, "t")
    stage.commit({("t", 0): 5}, member_id="m", generation=epoch)
    leave_consumer(stage)
    assert stage.listed()["g"][1:] == ("Empty", "consumer")
    stage.member("t")
    assert ConsumerGroupRemoved("g") in stage.written()
    for _ in range(2):
        assert list(stage.machine.consumer.groups) == []
        assert stage.listed()["g"][1:] == ("Stable", "classic")
        assert stage.fetch() == {("t", 0): 5}
        stage.fail_over()


def test_a_refused_client_takes_no_group_over() -> None:
    stage = GroupStage()
    member_id, _ = stage.member("t", name="c")
    stage.leave(member_id, name="c")
    assert beat(stage, "m", 7, name="c").error == ErrorCode.GROUP_ID_NOT_FOUND, "of a group that it was never in"
    assert stage.listed()["c"][1:] == ("Empty", "classic")
    join_consumer(stage, "t", name="k")
    leave_consumer(stage, name="k")
    assert stage.join("whoever", name="k").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(name="k", session_ms=1).error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert stage.listed()["k"][1:] == ("Empty", "consumer")


def test_requests_of_one_protocol_find_no_member_of_the_other() -> None:
    stage = GroupStage()
    join_consumer(stage, "t", name="k")
    assert stage.heartbeat("m", 1, name="k") == 25
    assert stage.sync("m", 1, name="k").error == ErrorCode.UNKNOWN_MEMBER_ID


# -- offsets of consumer groups -----------------------------------------------------------------------------------------------


def test_members_of_the_consumer_protocol_commit_in_their_epoch() -> None:
    stage = GroupStage()
    epoch = join_consumer(stage, "t")
    commit = {("t", 0): 5}
    assert stage.commit(commit, member_id="m", generation=epoch) == {("t", 0): 0}
    assert stage.commit(commit, member_id="m", generation=epoch, version=10) == {("t", 0): 0}
    assert stage.commit(commit, member_id="m", generation=epoch - 1) == {("t", 0): 113}
    assert stage.commit(commit, member_id="m", generation=epoch, version=8) == {("t", 0): 35}
    assert stage.commit(commit, member_id="stranger", generation=epoch) == {("t", 0): 25}
    assert stage.commit(commit) == {("t", 0): 25}
    leave_consumer(stage)
    assert stage.commit({("t", 0): 6}) == {("t", 0): 0}
    assert stage.fetch() == {("t", 0): 6}


@pytest.mark.parametrize(("member_id", "epoch", "error"), [("m", 0, 0), ("m", -1, 113), ("x", 0, 25), (None, -1, 0)])
def test_members_of_the_consumer_protocol_fetch_in_their_epoch(member_id: str | None, epoch: int, error: int) -> None:
    stage = GroupStage()
    known = join_consumer(stage, "t")
    stage.commit({("t", 0): 5}, member_id="m", generation=known)
    sent = OffsetFetchRequestGroup("g", member_id, known + epoch if member_id else -1, None)
    (answer,) = stage.ask(OffsetFetchRequest([sent]), 9).reply.groups
    assert (answer.error_code, len(answer.topics)) == (error, 0 if error else 1)


def test_offsets_of_a_consumer_group_get_old_where_nobody_reads_them() -> None:
    stage = GroupStage(retention_ms=HOUR_MS)
    epoch = join_consumer(stage, "t")
    stage.commit({("t", 0): 1, ("u", 0): 2}, member_id="m", generation=epoch)
    for _ in range((HOUR_MS + CHECK_MS) // 30_000):
        stage.wait(30_000)
        assert beat(stage, "m", epoch).error == 0
    assert stage.fetch() == {("t", 0): 1}
    assert stage.delete_offsets({"t": [0], "u": [0]}) == {("t", 0): 86, ("u", 0): 0}
    assert stage.delete_groups("g") == {"g": 68}
    leave_consumer(stage)
    stage.wait(2 * CHECK_MS)
    assert stage.listed() == {}
    stage.fail_over()
    assert stage.listed() == {}
    assert stage.fetch() == {}


def test_an_empty_consumer_group_is_deleted_with_its_offsets() -> None:
    stage = GroupStage()
    epoch = join_consumer(stage, "t")
    stage.commit({("t", 0): 1}, member_id="m", generation=epoch)
    leave_consumer(stage)
    assert stage.delete_groups("g") == {"g": 0}
    stage.fail_over()
    assert stage.listed() == {}
    assert stage.fetch() == {}


# -- settings -----------------------------------------------------------------------------------------------------------------


def test_configs_of_a_group_are_kept_within_the_bounds_of_the_cluster() -> None:
    settings = GroupSettings()
    assert settings.within_bounds({}) == {}
    sent = {HEARTBEAT_INTERVAL: "1", SESSION_TIMEOUT: "70000", "share.session.timeout.ms": "1"}
    assert settings.within_bounds(sent) == {**sent, HEARTBEAT_INTERVAL: "5000", SESSION_TIMEOUT: "60000"}
    inside = {HEARTBEAT_INTERVAL: "6000", SESSION_TIMEOUT: "50000"}
    assert settings.within_bounds(inside) == inside


def test_settings_of_the_classic_protocol_that_change_count_at_once() -> None:
    stage = GroupStage()
    assert stage.join(session_ms=7_000, protocols=reads("t")).error == ErrorCode.MEMBER_ID_REQUIRED
    stage.group_settings = GroupSettings(ClassicSettings(session_timeout_ms_min=8_000))
    assert stage.join(session_ms=7_000, protocols=reads("t")).error == ErrorCode.INVALID_SESSION_TIMEOUT


# -- unknown input ------------------------------------------------------------------------------------------------------------


def test_an_event_that_no_client_sends_is_an_error_of_ours() -> None:
    stage = GroupStage()
    request: Any = object()
    with pytest.raises(AssertionError):
        stage.machine.decide(RequestEvent(request, 0, "", "", ""), 0)
    with pytest.raises(ValueError, match="no part"):
        stage.machine.decide(Expired(("who", "knows")), 0)
    with pytest.raises(ValueError, match="no part"):
        stage.machine.replay(object())


def test_a_shard_is_looked_at_again_for_as_long_as_it_is_served() -> None:
    stage = GroupStage()
    for _ in range(3):
        stage.wait(RETENTION_MS)
        assert stage.shard.next_deadline() is not None
        stage.fail_over()
