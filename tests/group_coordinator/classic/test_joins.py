"""Joins to a classic group: which ones are accepted, and what they begin."""

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.messages.join_group import JoinGroupResponse
from tests.group_coordinator.classic.stage import Stage


def test_a_join_without_a_group_id_is_refused() -> None:
    assert Stage().join(name="").error == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_range_is_refused(session_ms: int) -> None:
    stage = Stage()
    assert stage.join(session_ms=session_ms).error == ErrorCode.INVALID_SESSION_TIMEOUT
    assert not stage.groups


@pytest.mark.parametrize(("kind", "protocols"), [("", (("range", b""),)), ("consumer", ())])
def test_a_join_that_offers_nothing_is_refused_and_leaves_no_group(kind: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    stage = Stage()
    assert stage.join(kind=kind, protocols=protocols).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not stage.groups


def test_a_new_member_is_given_its_id_first_and_is_pending_until_it_comes_back() -> None:
    stage = Stage()
    refused = stage.join()
    assert (refused.error, refused.reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-id0")
    assert list(stage.group().pending) == ["c-id0"]
    joined = stage.join("c-id0")
    assert joined.error == 0
    assert (joined.reply.leader, joined.reply.generation_id) == ("c-id0", 1)
    assert not stage.group().pending


def test_old_clients_join_without_asking_for_an_id() -> None:
    stage = Stage()
    joined = stage.join(version=3)
    assert (joined.error, joined.reply.member_id) == (0, "c-id0")


def test_a_pending_member_that_does_not_come_back_is_forgotten_and_so_is_its_group() -> None:
    stage = Stage()
    stage.join(session_ms=10_000)
    stage.wait(9_999)
    assert stage.groups
    stage.wait(1)
    assert not stage.groups
    assert not stage.log


def test_a_pending_member_holds_the_rebalance_up_until_it_is_forgotten() -> None:
    stage = Stage()
    (first, *_), generation = stage.stable()
    stage.join(session_ms=10_000)
    again = stage.join(first, protocols=(("range", b"u"),))
    assert again.waits
    stage.wait(10_000)
    assert (again.error, again.reply.generation_id) == (0, generation + 1)


def test_a_member_id_for_a_group_that_is_not_there_is_unknown() -> None:
    stage = Stage()
    assert stage.join("c-1").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert not stage.groups


def test_a_member_id_that_nobody_was_given_is_unknown() -> None:
    stage = Stage()
    stage.stable()
    refused = stage.join("stranger")
    assert (refused.error, refused.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")


def test_refusals_name_no_protocol_as_their_version_has_it() -> None:
    stage = Stage()
    assert stage.join("c-1", version=6).reply.protocol_name == ""
    assert stage.join("c-1", version=7).reply.protocol_name is None


def test_another_protocol_type_or_no_common_protocol_is_refused() -> None:
    stage = Stage()
    stage.stable()
    assert stage.join(kind="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join(protocols=(("sticky", b""),)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.state() == "Stable"


def test_a_member_id_of_a_full_group_is_refused_with_an_empty_member_id() -> None:
    stage = Stage(size_max=2)
    stage.stable(2)
    refused = stage.join()
    assert (refused.error, refused.reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert stage.state() == "Stable"


def test_while_joins_are_waited_for_the_last_to_come_find_a_full_group() -> None:
    stage = Stage(size_max=3, initial_delay_ms=3000)
    joins = [stage.join(version=3) for _ in range(4)]
    assert [pending.waits for pending in joins] == [True, True, True, False]
    assert joins[3].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.wait(6000)
    assert [pending.error for pending in joins[:3]] == [0, 0, 0]


def test_a_pending_member_that_finds_no_room_is_not_waited_for() -> None:
    stage = Stage(size_max=1)
    (first, *_), generation = stage.stable()
    late = stage.join()
    assert late.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = stage.join(first, protocols=(("range", b"u"),))
    assert (again.error, again.reply.generation_id) == (0, generation + 1)


def test_the_leader_hears_of_all_members_and_the_others_of_none() -> None:
    stage = Stage(initial_delay_ms=3000)
    first, second = stage.join(version=3), stage.join(version=3, protocols=(("range", b"u"),))
    stage.wait(6000)
    replies: list[JoinGroupResponse] = [first.reply, second.reply]
    assert [(member.member_id, member.metadata) for member in replies[0].members] == [("c-id0", b"t"), ("c-id1", b"u")]
    assert replies[1].members == []
    assert {(reply.leader, reply.protocol_type, reply.protocol_name) for reply in replies} == {("c-id0", "consumer", "range")}


def test_the_initial_delay_is_extended_while_members_come_up_to_the_rebalance_timeout() -> None:
    stage = Stage(initial_delay_ms=3000)
    askings = []
    for _ in range(4):  # at 0, 2, 4 and 6 s
        askings.append(stage.join(version=3, rebalance_ms=7000))
        stage.wait(2000)
    assert askings[0].answered is (stage.now_ms >= 1_007_000)
    assert [pending.error for pending in askings] == [0] * 4
    assert stage.group().facts.since_ms == 1_007_000


def test_the_initial_delay_is_not_extended_when_nobody_came() -> None:
    stage = Stage(initial_delay_ms=3000)
    first = stage.join(version=3)
    stage.wait(2999)
    assert first.waits
    stage.wait(1)
    assert first.error == 0


def test_a_protocol_is_chosen_by_votes_among_those_that_all_offer() -> None:
    stage = Stage(initial_delay_ms=3000)
    offers = [("a", "b", "c"), ("b", "c"), ("c", "b", "a"), ("d", "b", "c")]
    askings = [stage.join(version=3, protocols=tuple([(name, b"") for name in names])) for names in offers]
    stage.wait(60_000)
    assert {pending.reply.protocol_name for pending in askings} == {"b"}


def test_a_member_joins_a_stable_group_and_all_join_again() -> None:
    stage = Stage()
    (first, *_), generation = stage.stable()
    second, joins = stage.come()
    assert joins.waits
    assert stage.state() == "PreparingRebalance"
    assert stage.heartbeat(first, generation) == 27
    again = stage.join(first)
    stage.agree([again, joins])
    assert again.reply.generation_id == generation + 1
    assert again.reply.leader == first
    assert stage.group().facts.reason == f"member {second} joined"


def test_a_follower_that_joins_again_unchanged_hears_of_the_generation_as_it_is() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2)
    again = stage.join(follower)
    assert (again.error, again.reply.generation_id, again.reply.members) == (0, generation, [])
    assert again.reply.leader == leader
    assert stage.state() == "Stable"


def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    stage = Stage()
    (leader, _), _ = stage.stable(2)
    assert stage.join(leader, reason="topic t has 3 partitions").waits
    assert stage.group().facts.reason == f"leader {leader} joined again: topic t has 3 partitions"


def test_a_follower_whose_subscription_changed_begins_a_rebalance() -> None:
    stage = Stage()
    (_, follower), _ = stage.stable(2)
    assert stage.join(follower, protocols=(("range", b"other"),)).waits
    assert stage.state() == "PreparingRebalance"


def test_a_member_that_lost_its_reply_gets_it_again_while_the_leader_assigns() -> None:
    stage = Stage()
    _, joined = stage.come()
    again = stage.join(joined.reply.member_id)
    assert again.reply == joined.reply
    assert stage.state() == "CompletingRebalance"


def test_a_changed_member_begins_a_rebalance_while_the_leader_assigns_and_waiting_syncs_hear_of_it() -> None:
    stage = Stage(initial_delay_ms=3000)
    leader, follower = stage.join(version=3), stage.join(version=3)
    stage.wait(6000)
    waiting = stage.sync(follower.reply.member_id, 1)
    assert stage.join(leader.reply.member_id, protocols=(("range", b"new"),)).waits
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_that_is_sent_again_takes_the_place_of_the_first() -> None:
    stage = Stage(initial_delay_ms=3000)
    member_id, first = stage.come()
    second = stage.join(member_id)
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    stage.wait(6000)
    assert second.error == 0


def test_members_that_do_not_join_in_time_are_dropped_and_another_leads() -> None:
    stage = Stage()
    (leader, follower), generation = stage.stable(2, rebalance_ms=20_000)
    third, joins = stage.come(rebalance_ms=20_000)
    again = stage.join(follower)
    stage.wait_alive(20_000, (leader, generation))
    assert {again.reply.leader, joins.reply.leader} <= {follower, third}
    assert again.reply.generation_id == generation + 1
    assert stage.heartbeat(leader, generation) == 25


def test_a_group_of_which_nobody_joins_again_becomes_empty_and_says_so_in_the_log() -> None:
    stage = Stage()
    (only,), generation = stage.stable(rebalance_ms=20_000)
    _, joins = stage.come(rebalance_ms=20_000)
    assert joins.waits
    stage.leave(joins.request.member_id)
    stage.wait_alive(20_000, (only, generation))
    assert stage.state() == "Empty"
    assert stage.group().facts.generation == generation + 1
    stage.fail_over()
    assert (stage.state(), stage.group().facts.generation) == ("Empty", generation + 1)
    assert stage.group().facts.since_ms == stage.now_ms


def test_a_new_member_waits_no_longer_than_five_minutes_and_the_rebalance_goes_on_without_it() -> None:
    """KAFKA-9752: it wedged the rebalance."""
    stage = Stage()
    (first, *_), generation = stage.stable(rebalance_ms=600_000, session_ms=30_000)
    late = stage.join(version=3, rebalance_ms=600_000)
    stage.wait_alive(299_000, (first, generation))
    assert late.waits
    stage.wait_alive(1_000, (first, generation))
    assert (late.error, late.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    again = stage.join(first, rebalance_ms=600_000)
    assert again.error == 0
    assert list(stage.group().members) == [first]


def test_a_rebalance_ends_when_the_last_that_it_waited_for_was_a_new_member_that_expired() -> None:
    """KAFKA-9752, the other order."""
    stage = Stage()
    (first, second), generation = stage.stable(2, rebalance_ms=600_000, session_ms=10_000)
    stage.join(version=3, rebalance_ms=600_000)
    again = stage.join(first, rebalance_ms=600_000)
    stage.wait(10_000)  # the second is silent
    assert second not in stage.group().members
    assert again.error == 0
    assert again.reply.generation_id == generation + 1


def test_a_join_writes_nothing_to_the_log() -> None:
    stage = Stage()
    stage.come()
    assert stage.state() == "CompletingRebalance"
    assert not stage.log


def test_a_client_id_as_long_as_the_wire_allows_still_makes_a_member_id_that_fits() -> None:
    stage = Stage()
    joining = stage.ask(stage.join(session_ms=10_000).request, 9, client_id="\u20ac" * 10_900)
    assert joining.error == ErrorCode.MEMBER_ID_REQUIRED
    assert len(joining.reply.member_id.encode()) <= 32_767


def test_a_group_may_have_any_name_that_is_not_empty() -> None:
    stage = Stage()
    for name in (" ", "..", "a/b", "\0", "\u20ac" * 10_000):
        stage.stable(name=name)
        assert stage.group(name).facts.generation == 1
    stage.fail_over()
    assert len(stage.groups) == 5


def test_of_a_protocol_that_is_offered_twice_the_first_counts() -> None:
    stage = Stage()
    _, joined = stage.come(protocols=(("range", b"1"), ("range", b"2")))
    assert [member.metadata for member in joined.reply.members] == [b"1"]
    assert dict(stage.group().supporters) == {"range": 1}
