"""Syncs, heartbeats and leaves: the answers of a generation, its members, and its end."""

from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from libs.wire.messages.leave_group import LeaveGroupRequest
from libs.wire.messages.list_groups import ListedGroup
from services.group_coordinator.core.classic.commits import commit_error, subscribed_topics
from services.group_coordinator.core.classic.group_decision import join_park
from services.group_coordinator.core.classic.views import describe, listed
from services.group_coordinator.core.model.group_kind import CLASSIC, list_where
from services.group_coordinator.core.model.records import ClassicGroupChanged, ClassicGroupRemoved
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.record_formats.record_codec import decode, encode
from services.group_coordinator.core.simple.simple_groups import NoGroup
from tests.group_coordinator.classic.stage import Stage


def begun(stage: Stage, size: int = 2, **how: object) -> list[str]:
    """A new generation without a SyncGroup yet, the leader first."""
    stage.stopped = True
    joins = [stage.join(version=3, **how) for _ in range(size)]  # type: ignore[arg-type]
    stage.stopped = False
    stage.settle()
    return sorted([joined.reply.member_id for joined in joins], key=lambda item: item != joins[0].reply.leader)


def test_the_leader_hears_of_a_generation_before_the_members_that_wait_for_its_assignment() -> None:
    stage = Stage()
    leader, first, last = begun(stage, 3)
    stage.sync(leader, 1, {})
    stage.join(first, protocols=(("range", b"other"),))
    stage.join(leader)
    offered = [JoinGroupRequestProtocol("range", b"t")]
    request = RequestEvent(JoinGroupRequest("g", 10_000, 60_000, last, None, "consumer", offered), 9, "c", "/127.0.0.1", "")
    decision = stage.classic.decide_join(request, request.request, stage.now_ms)  # type: ignore[arg-type]
    former, *others = [key for key, _ in decision.wakes]
    assert (former, others) == (join_park("g", last), [join_park("g", leader), join_park("g", first)])


# -- SyncGroup


def test_followers_wait_for_the_leader_and_all_get_their_part() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    waiting = stage.sync(follower, 1)
    assert waiting.waits
    led = stage.sync(leader, 1, {leader: b"p0", follower: b"p1", "stranger": b"p2"})
    assert (led.reply.assignment, waiting.reply.assignment) == (b"p0", b"p1")
    assert (waiting.reply.protocol_type, waiting.reply.protocol_name) == ("consumer", "range")
    assert stage.sync(follower, 1).reply.assignment == b"p1"


def test_a_member_that_the_leader_left_out_gets_an_empty_assignment() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    stage.sync(leader, 1, {leader: b"all"})
    assert stage.sync(follower, 1).reply.assignment == b""


def test_nobody_hears_of_an_assignment_before_it_is_in_the_log() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    stage.holds = True
    waiting, led = stage.sync(follower, 1), stage.sync(leader, 1, {follower: b"p"})
    assert waiting.waits
    assert led.waits
    stage.holds = False
    stage.settle()
    assert (led.error, waiting.error) == (0, 0)


def test_an_assignment_that_the_log_refuses_has_the_error_that_kafka_gives_and_may_be_sent_again() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    waiting = stage.sync(follower, 1)
    stage.holds = True
    led = stage.sync(leader, 1, {follower: b"p"})
    stage.refuse(19)
    assert led.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.waits
    assert stage.state() == "CompletingRebalance"
    assert stage.sync(leader, 1, {follower: b"q"}).error == 0
    assert waiting.reply.assignment == b"q"


def test_an_assignment_of_unknown_outcome_that_is_in_the_log_reaches_the_waiting_members() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    waiting = stage.sync(follower, 1)
    stage.holds = True
    led = stage.sync(leader, 1, {follower: b"p"})
    stage.holds = False
    stage.lose_sight(stored=True)
    assert led.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.state() == "Stable"
    assert waiting.reply.assignment == b"p"


def test_an_assignment_of_unknown_fate_that_is_not_in_the_log_is_waited_for_again() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    waiting = stage.sync(follower, 1)
    stage.holds = True
    stage.sync(leader, 1, {follower: b"p"})
    stage.holds = False
    stage.lose_sight(stored=False)
    assert waiting.waits
    assert stage.sync(leader, 1, {follower: b"q"}).error == 0
    assert waiting.reply.assignment == b"q"


def test_syncs_that_do_not_belong_are_refused() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    assert stage.sync(leader, 1, name="").error == ErrorCode.INVALID_GROUP_ID
    assert stage.sync(leader, 1, name="other").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync("stranger", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync(leader, 0).error == ErrorCode.ILLEGAL_GENERATION
    assert stage.sync(leader, 2).error == ErrorCode.ILLEGAL_GENERATION
    assert stage.sync(leader, 1, kind="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.sync(leader, 1, protocol="sticky").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.state() == "CompletingRebalance"
    stage.join(leader, protocols=(("range", b"u"),))
    assert stage.sync(follower, 1).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_in_time_are_removed_even_when_the_leader_did() -> None:
    stage = Stage()
    leader, follower = begun(stage, rebalance_ms=20_000)
    stage.sync(leader, 1, {leader: b"p"})
    stage.wait_alive(20_000, (leader, 1), (follower, 1))
    assert list(stage.group().members) == [leader]
    assert stage.state() == "PreparingRebalance"
    assert stage.group().facts.reason == f"{follower} did not ask for their assignment in time"


def test_a_leader_that_does_not_sync_in_time_is_removed_and_waiting_members_join_again() -> None:
    stage = Stage()
    leader, follower = begun(stage, rebalance_ms=20_000)
    waiting = stage.sync(follower, 1)
    stage.wait_alive(20_000, (leader, 1))
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(stage.group().members) == [follower]
    assert stage.join(follower).reply.leader == follower


def test_a_second_sync_of_a_member_takes_the_place_of_the_first() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    first, second = stage.sync(follower, 1), stage.sync(follower, 1)
    assert (first.error, second.waits) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
    stage.sync(leader, 1, {follower: b"p"})
    assert second.reply.assignment == b"p"


# -- Heartbeat


def test_heartbeats_are_answered_by_state() -> None:
    stage = Stage(initial_delay_ms=3000)
    assert stage.heartbeat("m", 0, name="") == 24
    assert stage.heartbeat("m", 0) == 25
    first = stage.join(version=3)
    (member_id,) = stage.group().members
    assert stage.heartbeat(member_id, 0) == 27
    stage.wait(3000)
    assert first.reply.member_id == member_id
    assert stage.heartbeat(member_id, 1) == 0
    assert stage.heartbeat(member_id, 0) == 22
    assert stage.heartbeat("stranger", 1) == 25
    stage.sync(member_id, 1, {})
    assert stage.heartbeat(member_id, 1) == 0
    stage.leave(member_id)
    assert stage.state() == "Empty"
    assert stage.heartbeat(member_id, 2) == 25


def test_a_member_that_sends_heartbeats_lives_and_one_that_does_not_is_removed() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, session_ms=10_000)
    stage.wait_alive(9_999, (leader, generation))
    assert stage.heartbeat(leader, generation) == 0
    stage.wait(1)
    assert stage.heartbeat(leader, generation) == 27
    assert list(stage.group().members) == [leader]
    assert stage.group().facts.reason == f"member {follower} was silent for 10000 ms"


def test_heartbeats_keep_a_member_alive_while_others_are_waited_for() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, session_ms=10_000, rebalance_ms=60_000)
    stage.join(leader, protocols=(("range", b"u"),))
    stage.wait_alive(30_000, (follower, generation))
    assert follower in stage.group().members


def test_a_member_that_waits_for_a_reply_needs_no_heartbeats() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, session_ms=10_000, rebalance_ms=60_000)
    waiting = stage.join(leader, protocols=(("range", b"u"),))
    stage.wait_alive(59_000, (follower, generation))
    assert waiting.waits
    stage.join(follower)
    assert waiting.error == 0
    stage.wait(9_999)
    assert set(stage.group().members) == {leader, follower}
    stage.wait(1)
    assert not stage.group().members


def test_a_silent_member_is_the_last_that_a_rebalance_waited_for() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, session_ms=10_000)
    waiting = stage.join(leader, protocols=(("range", b"u"),))
    stage.wait(10_000)
    assert waiting.reply.generation_id == generation + 1
    assert follower not in stage.group().members


# -- LeaveGroup


def test_several_members_leave_at_once_each_with_its_own_answer() -> None:
    stage = Stage()
    ids, generation = stage.stable(3)
    left = stage.leave(ids[0], "stranger", ids[1], reason="closed")
    assert [answer.error_code for answer in left.members] == [0, 25, 0]
    assert left.error_code == 0
    assert stage.group().facts.reason == f"member {ids[0]} left: closed, member {ids[1]} left: closed"
    assert stage.heartbeat(ids[2], generation) == 27


def test_one_member_leaves_with_its_error_on_top_below_version_3() -> None:
    stage = Stage()
    (only,), _ = stage.stable()
    assert stage.ask(LeaveGroupRequest("g", member_id="stranger"), 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    left = stage.ask(LeaveGroupRequest("g", member_id=only), 2)
    assert (left.error, left.reply.members) == (0, [])
    assert stage.ask(LeaveGroupRequest("missing", member_id=only), 1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_not_there_is_left_by_nobody() -> None:
    stage = Stage()
    assert stage.leave("m", name="").error_code == ErrorCode.INVALID_GROUP_ID
    assert [answer.error_code for answer in stage.leave("m", "n").members] == [25, 25]


def test_the_last_member_that_leaves_leaves_an_empty_group_in_the_log() -> None:
    stage = Stage()
    (only,), generation = stage.stable()
    stage.leave(only)
    last = decode(*stage.log[-1])
    assert last == ClassicGroupChanged("g", "consumer", generation + 1, None, None, stage.now_ms, ())


def test_a_pending_member_may_leave() -> None:
    stage = Stage()
    (_, _), generation = stage.stable(2)
    pending = stage.join().reply.member_id
    assert [answer.error_code for answer in stage.leave(pending).members] == [0]
    assert stage.state() == "Stable"
    assert stage.group().facts.generation == generation


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    stage = Stage()
    leader, follower = begun(stage)
    waiting = stage.sync(follower, 1)
    stage.leave(follower)
    assert waiting.error == ErrorCode.UNKNOWN_MEMBER_ID
    joining = stage.join(version=3)
    (new,) = [member_id for member_id in stage.group().members if member_id != leader]
    stage.leave(new)
    assert joining.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(leader).error == 0


# -- failover, removal, views


def test_a_new_owner_knows_members_and_assignments_and_gives_everybody_a_whole_session() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, session_ms=10_000)
    stage.wait_alive(9_000, (leader, generation), (follower, generation))
    stage.fail_over()
    stage.wait(9_999)
    assert stage.heartbeat(leader, generation) == 0
    assert stage.sync(follower, generation).reply.assignment == b"1"
    stage.wait(10_000)
    assert not stage.group().members


def test_an_unfinished_rebalance_is_gone_with_its_owner() -> None:
    stage = Stage()
    (leader,), generation = stage.stable()
    stage.come()
    stage.join(leader)
    assert stage.group().facts.generation == generation + 1
    stage.fail_over()
    assert (stage.state(), stage.group().facts.generation) == ("Stable", generation)
    assert stage.heartbeat(leader, generation + 1) == 22


def test_a_loaded_group_that_is_too_large_gets_smaller() -> None:
    stage = Stage()
    ids, generation = stage.stable(3)
    stage.settings = type(stage.settings)(initial_delay_ms=0, size_max=2)
    stage.fail_over()
    assert stage.heartbeat(ids[0], generation) == 27
    askings = [stage.join(member_id) for member_id in ids]
    stage.wait(60_000)
    assert sorted(in_flight.error for in_flight in askings) == [0, 0, 81]


def test_a_removed_group_leaves_nothing_behind_and_a_new_one_may_take_its_name() -> None:
    """KAFKA-8386 is about groups that are Dead and still found: here none is."""
    stage = Stage()
    (only,), generation = stage.stable()
    stage.leave(only)
    tombstone = encode(ClassicGroupRemoved("g"))
    assert tombstone is not None
    stage.log.append(tombstone)
    stage.fail_over()
    assert not stage.groups
    assert stage.heartbeat(only, generation) == 25
    assert stage.stable()[1] == 1


def test_groups_are_described_as_their_state_has_it() -> None:
    stage = Stage()
    (leader, _), _ = stage.stable(2)
    shown = describe(stage.group())
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("Stable", "consumer", "range")
    assert {(member.client_id, member.client_host, member.member_metadata) for member in shown.members} == {
        ("c", "/127.0.0.1", b"t")
    }
    assert sorted(bytes(member.member_assignment) for member in shown.members) == [b"0", b"1"]
    stage.join(leader, protocols=(("range", b"u"),))
    shown = describe(stage.group())
    assert (shown.group_state, shown.protocol_data) == ("PreparingRebalance", "")
    assert {bytes(member.member_metadata) for member in shown.members} == {b""}
    assert sorted(bytes(member.member_assignment) for member in shown.members) == [b"0", b"1"]


def test_a_missing_group_is_dead_and_an_error_from_version_6_on() -> None:
    old, new = (NoGroup().describe_as_classic_group("g", version) for version in (5, 6))
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_groups_are_listed_by_state_and_type_whatever_the_case() -> None:
    stage = Stage()
    stage.stable()
    shown = listed(stage.group())
    assert (shown.group_id, shown.protocol_type, shown.group_state, shown.group_type) == ("g", "consumer", "Stable", "classic")

    def passing(states: list[str], kinds: list[str]) -> list[ListedGroup]:
        return list_where(CLASSIC, [stage.group()], listed, states, kinds)

    assert passing([], []) == passing(["stable", "Empty"], ["Classic"]) == [shown]
    assert passing(["Empty"], []) == passing([], ["consumer"]) == []


def test_commits_are_let_in_as_the_group_has_it() -> None:
    stage = Stage()
    (leader, _), generation = stage.stable(2)
    assert commit_error(stage.group(), leader, None, generation) == 0
    assert commit_error(stage.group(), leader, None, generation - 1) == 22
    assert commit_error(stage.group(), "stranger", None, generation) == 25
    assert commit_error(stage.group(), "", None, -1) == 25
    stage.join(leader, protocols=(("range", b"u"),))
    assert commit_error(stage.group(), leader, None, generation) == 0
    other = Stage()
    first, _ = begun(other)
    assert commit_error(other.group(), first, None, 1) == 27
    for member_id in list(other.group().members):
        other.leave(member_id)
    assert commit_error(other.group(), "", None, -1) == 0


def test_topics_are_read_out_of_what_consumers_say() -> None:
    stage = Stage()
    stage.stable(protocols=(("range", b"\0\1\0\0\0\2\0\1a\0\2bc" + b"\xff" * 4),))
    assert subscribed_topics(stage.group()) == frozenset({"a", "bc"})
    stage.stable(name="h", protocols=(("range", b"\0\1\0\0\xff\xff\0\1a"),))
    assert subscribed_topics(stage.group("h")) is None
    stage.stable(name="k", kind="connect")
    assert subscribed_topics(stage.group("k")) is None


def test_only_an_empty_group_may_be_removed() -> None:
    stage = Stage()
    (only,), _ = stage.stable()
    assert stage.classic.deletion_error("g") == 68
    stage.leave(only)
    assert stage.classic.deletion_error("g") == 0
    stage.fail_over()
    assert stage.classic.deletion_error("g") == 0


def test_views_are_of_one_shard() -> None:
    stage = Stage()
    stage.stable()
    assert stage.classic.describe_as_classic_group("g", 6).group_state == "Stable"
    assert [shown.group_id for shown in stage.classic.listed([], ["classic"])] == ["g"]
    assert stage.classic.listed(["Empty"], []) == []


def test_the_time_that_a_group_spends_rebalancing_is_counted() -> None:
    stage = Stage(initial_delay_ms=3000)
    (leader, follower), generation = stage.stable(2)
    start_ms = stage.group().facts.rebalancing_ms
    assert start_ms >= 3000
    joins = [stage.join(leader, protocols=(("range", b"u"),))]
    stage.wait_alive(2_000, (follower, generation))
    joins.append(stage.join(follower))
    stage.wait(1_000)
    assert stage.group().facts.rebalanced_ms(stage.now_ms) == start_ms + 3_000
    assert stage.join(leader).waits  # before it assigns: the next begins
    facts = stage.group().facts
    assert (facts.rebalances, facts.rebalancing_ms) == (3, start_ms + 3_000)
