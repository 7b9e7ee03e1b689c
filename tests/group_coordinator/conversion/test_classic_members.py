"""Clients of the classic protocol in a group of the consumer protocol. Codes are Kafka 4.2's."""

from libs.wire.errors import ErrorCode
from libs.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from tests.group_coordinator.conversion.stage import Stage, assigned_in, offers, subscription
from tests.group_coordinator.named_topics import given


def grown(**topics: int) -> tuple[Stage, str]:
    """A classic group of one member that "new" joined."""
    stage = Stage(**(topics or {"t": 2}))
    (member_id,) = stage.classic_group("t", members=1)
    assert stage.beat("new", 0, "t").error == 0
    return stage, member_id


def test_a_classic_member_hears_of_the_rebalance_and_gets_its_part() -> None:
    stage, member_id = grown()
    assert stage.heartbeat(member_id, 1) == 27
    joined = stage.join(member_id, protocols=offers("t"))  # an eager client: it owns nothing any more
    assert joined.error == 0
    assert (joined.reply.generation_id, joined.reply.protocol_type, joined.reply.protocol_name) == (2, "consumer", "range")
    assert joined.reply.leader != member_id
    assert not joined.reply.members
    assert not joined.reply.skip_assignment
    synced = stage.sync(member_id, 2, kind="consumer", protocol="range")
    assert synced.error == 0
    assert (synced.reply.protocol_type, synced.reply.protocol_name) == ("consumer", "range")
    mine = assigned_in(synced.reply.assignment)
    theirs = given(stage.beat("new", 2, owned={}).reply)
    assert theirs is not None
    assert sorted(mine["t"] + theirs["t"]) == [0, 1]
    assert stage.heartbeat(member_id, 2) == 0


def test_a_cooperative_member_gives_up_first_and_others_get_it_afterwards() -> None:
    stage = Stage(t=2)
    (member_id,) = stage.classic_group("t", members=1, cooperative=True)
    assert given(stage.beat("new", 0, "t").reply) == {}
    protocols = ("cooperative-sticky",)
    joined = stage.join(member_id, protocols=offers("t", owned={"t": [0, 1]}, protocols=protocols))
    assert joined.reply.generation_id == 1  # it has not given up anything yet
    (kept,) = assigned_in(stage.sync(member_id, 1).reply.assignment)["t"]
    assert stage.beat("new", 2).reply.assignment is None
    assert stage.heartbeat(member_id, 1) == 27
    again = stage.join(member_id, protocols=offers("t", owned={"t": [kept]}, protocols=protocols))
    assert again.reply.generation_id == 2
    assert assigned_in(stage.sync(member_id, 2).reply.assignment) == {"t": [kept]}
    assert given(stage.beat("new", 2).reply) == {"t": [1 - kept]}


def test_it_waits_without_joining_again_while_others_have_what_it_is_to_get() -> None:
    stage = Stage(t=2)
    assert given(stage.beat("new", 0, "t").reply) == {"t": [0, 1]}
    member_id, joined = stage.come(protocols=offers("t"))
    assert joined.reply.generation_id == 2
    assert assigned_in(stage.sync(member_id, 2).reply.assignment) == {}
    assert stage.heartbeat(member_id, 2) == 0
    revoked = stage.beat("new", 1, owned={"t": [0, 1]})
    (kept,) = (given(revoked.reply) or {})["t"]
    assert stage.heartbeat(member_id, 2) == 0
    assert stage.beat("new", 1, owned={"t": [kept]}).reply.member_epoch == 2
    assert stage.heartbeat(member_id, 2) == 27
    again = stage.join(member_id, protocols=offers("t"))
    assert again.reply.generation_id == 2
    assert assigned_in(stage.sync(member_id, 2).reply.assignment) == {"t": [1 - kept]}
    assert stage.heartbeat(member_id, 2) == 0


def test_a_new_dynamic_member_is_given_an_id_first_and_an_old_client_is_not() -> None:
    stage, _ = grown()
    request = stage.join(protocols=offers("t"))
    assert request.error == ErrorCode.MEMBER_ID_REQUIRED
    assert request.reply.member_id
    assert request.reply.member_id not in stage.consumer().members
    old = stage.join(protocols=offers("t"), version=3)
    assert old.error == 0
    assert old.reply.member_id in stage.consumer().members


def test_its_assignment_is_written_in_the_version_that_it_speaks() -> None:
    for version in range(4):
        stage = Stage(t=1)
        stage.beat("new", 0, "u")
        protocols = (("range", subscription("t", version=version)),)
        member_id, joined = stage.come(protocols=protocols)
        data = stage.sync(member_id, joined.reply.generation_id).reply.assignment
        assert data[:2] == bytes([0, version])
        assert assigned_in(data) == {"t": [0]}


def test_a_client_that_is_no_member_or_of_another_generation_hears_so() -> None:
    stage, member_id = grown()
    assert stage.heartbeat("nobody", 1) == 25
    assert stage.heartbeat("new", 2) == 25  # it does not speak this protocol
    assert stage.heartbeat(member_id, 0) == 22
    assert stage.heartbeat(member_id, 2) == 22
    assert stage.sync("nobody", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync("new", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync(member_id, 2).error == ErrorCode.ILLEGAL_GENERATION
    assert stage.sync(member_id, 1).error == ErrorCode.REBALANCE_IN_PROGRESS
    joined = stage.join(member_id, protocols=offers("t")).reply
    assert stage.sync(member_id, joined.generation_id, kind="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.sync(member_id, joined.generation_id, protocol="sticky").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join("", protocols=offers("t"), session_ms=5_999).error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert stage.join("", protocols=offers("t"), kind="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join("", protocols=offers("t", protocols=("sticky",))).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join("", protocols=(("range", b"\x00"),), version=3).error == -1
    assert set(stage.consumer().members) == {member_id, "new"}


def test_a_full_group_takes_nobody() -> None:
    stage, member_id = grown()
    stage.change(consumer=ConsumerSettings(size_max=2))
    assert stage.join("", protocols=offers("t")).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.join(member_id, protocols=offers("t")).error == 0


def test_other_topics_are_a_reason_to_rebalance_and_the_same_ones_are_not() -> None:
    stage, member_id = grown(t=2, u=1)
    assert stage.join(member_id, protocols=offers("t")).reply.generation_id == 2
    assert stage.join(member_id, protocols=offers("t")).reply.generation_id == 2
    changed = stage.join(member_id, protocols=offers("t", "u"), reason="topics changed")
    assert changed.reply.generation_id == 3
    assert stage.consumer().facts.reason == f"member {member_id} changed its subscription: added u: topics changed"


def test_a_topic_that_gains_partitions_makes_it_join_again() -> None:
    stage, member_id = grown()
    stage.join(member_id, protocols=offers("t"))
    stage.sync(member_id, 2)
    stage.beat("new", 2, owned={})
    assert stage.heartbeat(member_id, 2) == 0
    stage.set_topics(t=4)
    assert stage.beat("new", 2).reply.member_epoch == 3
    assert stage.heartbeat(member_id, 2) == 27


def test_a_member_that_does_not_join_again_in_time_is_removed_although_it_sends_heartbeats() -> None:
    stage, member_id = grown()
    assert stage.heartbeat(member_id, 1) == 27
    stage.wait_alive(40_000, (member_id, 1))
    stage.beat("new", 2)
    stage.wait_alive(18_000, (member_id, 1))
    assert member_id in stage.consumer().members
    stage.wait_alive(2_000, (member_id, 1))
    assert set(stage.consumer().members) == {"new"}
    assert stage.consumer().facts.reason == f"member {member_id} did not join again within 60000 ms"


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    stage, member_id = grown()
    stage.join(member_id, protocols=offers("t"))
    stage.wait_alive(40_000, (member_id, 2))
    stage.beat("new", 2)
    stage.wait_alive(20_000, (member_id, 2))
    assert set(stage.consumer().members) == {"new"}
    assert "did not ask for its assignment within 60000 ms" in stage.consumer().facts.reason


def test_a_member_that_syncs_in_time_stays() -> None:
    stage, member_id = grown()
    stage.join(member_id, protocols=offers("t"))
    stage.sync(member_id, 2)
    for _ in range(4):
        stage.wait_alive(30_000, (member_id, 2))
        stage.beat("new", 2)
    assert set(stage.consumer().members) == {member_id, "new"}
    assert not stage.machine.mixed.expected_requests


def test_it_leaves_and_others_get_what_it_had() -> None:
    stage, member_id = grown()
    reply = stage.leave(member_id, "nobody")
    assert [(item.member_id, item.error_code) for item in reply.members] == [(member_id, 0), ("nobody", 25)]
    assert given(stage.beat("new", 2).reply) == {"t": [0, 1]}
    assert stage.heartbeat(member_id, 1) == 25


def test_an_old_client_leaves_too() -> None:
    stage, member_id = grown()
    assert stage.ask(LeaveGroupRequest("g", [], member_id), 2).error == 0
    assert stage.ask(LeaveGroupRequest("g", [], member_id), 2).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_operator_removes_a_static_member_of_either_protocol() -> None:
    stage, member_id = grown()
    stage.beat("static", 0, "t", instance="i")
    reply = stage.ask(LeaveGroupRequest("g", [MemberIdentity("", "i"), MemberIdentity("", "j")]), 5).reply
    assert [item.error_code for item in reply.members] == [0, 25]
    assert set(stage.consumer().members) == {member_id, "new"}


def test_a_static_member_comes_back_under_a_new_id_and_keeps_what_it_has() -> None:
    stage = Stage(t=2)
    stage.beat("new", 0, "u")
    first = stage.join(instance="i", protocols=offers("t"))
    old, generation = first.reply.member_id, first.reply.generation_id
    assert assigned_in(stage.sync(old, generation, instance="i").reply.assignment) == {"t": [0, 1]}
    again = stage.join(instance="i", protocols=offers("t"))
    assert again.error == 0
    assert again.reply.member_id != old
    assert again.reply.generation_id == generation
    assert assigned_in(stage.sync(again.reply.member_id, generation, instance="i").reply.assignment) == {"t": [0, 1]}
    assert stage.heartbeat(old, generation, instance="i") == 82
    assert stage.join(old, instance="i", protocols=offers("t")).error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.join("x", instance="j", protocols=offers("t")).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_of_it_that_changes_to_the_consumer_protocol_is_one_member() -> None:
    stage = Stage(t=2)
    stage.beat("new", 0, "u")
    old = stage.join(instance="i", protocols=offers("t")).reply.member_id
    changed = stage.beat("newer", 0, "t", instance="i")
    assert changed.error == 0
    assert given(changed.reply) == {"t": [0, 1]}
    assert set(stage.consumer().members) == {"new", "newer"}
    assert old not in stage.consumer().members


def test_a_decision_that_the_log_refuses_changes_nothing_for_it() -> None:
    stage, member_id = grown()
    before = stage.consumer().members[member_id]
    stage.holds = True
    joined = stage.join(member_id, protocols=offers("t"))
    stage.refuse(19)
    assert joined.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.consumer().members[member_id] == before


def test_nobody_is_given_up_for_what_could_not_be_heard_while_the_log_was_away() -> None:
    """As by the next owner: its members' sessions begin when it has read the log."""
    stage = Stage(t=2)
    stage.beat("new", 0, "t")
    old = stage.join(protocols=offers("t"), version=3).reply.member_id
    stage.lose_sight(stored=False, for_ms=300_000)
    assert set(stage.consumer().members) == {"new", old}
    stage.wait(60_000)
    assert not stage.consumer().members


def test_nobody_is_given_up_for_it_in_a_classic_group() -> None:
    stage = Stage(t=2)
    ids = stage.classic_group("t")
    stage.lose_sight(stored=False, for_ms=300_000)
    assert [stage.heartbeat(member_id, 1) for member_id in ids] == [0, 0]
    stage.wait(60_000)
    assert stage.state() == "Empty"
