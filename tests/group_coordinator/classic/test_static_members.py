"""KIP-345: members with an instance id may be restarted without a rebalance."""

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.classic.member import Offered
from tests.group_coordinator.classic.stage import Stage
from tests.group_coordinator.one_shard import CoordinatorRequest


def pair(stage: Stage, **how: object) -> tuple[list[str], int]:
    """Static members a and b; a leads."""
    stage.stopped = True
    joins = [stage.join(instance=instance, **how) for instance in "ab"]  # type: ignore[arg-type]
    stage.stopped = False
    stage.settle()
    return stage.agree(joins)


def back(stage: Stage, instance: str, **how: object) -> CoordinatorRequest:
    return stage.join(instance=instance, **how)  # type: ignore[arg-type]


def test_a_static_member_is_never_asked_to_come_again_with_its_id() -> None:
    joined = Stage().join(instance="a")
    assert (joined.error, joined.reply.member_id) == (0, "a-id0")


def test_a_restarted_follower_gets_its_assignment_back_without_a_rebalance() -> None:
    stage = Stage()
    (a, b), generation = pair(stage)
    again = back(stage, "b")
    new_b = again.reply.member_id
    assert new_b != b
    assert (again.error, again.reply.generation_id, again.reply.leader) == (0, generation, a)
    assert (again.reply.members, again.reply.skip_assignment) == ([], False)
    assert stage.sync(new_b, generation, instance="b").reply.assignment == b"1"
    assert stage.heartbeat(a, generation, instance="a") == 0


def test_a_restarted_leader_skips_the_assignment_and_still_watches_all_members() -> None:
    stage = Stage()
    (a, b), generation = pair(stage)
    again = back(stage, "a", version=9)
    new_a = again.reply.member_id
    assert (again.reply.leader, again.reply.skip_assignment, again.reply.generation_id) == (new_a, True, generation)
    assert [member.member_id for member in again.reply.members] == [b, new_a]
    assert a not in stage.group().members


def test_a_restarted_leader_that_cannot_skip_hears_that_another_leads() -> None:
    stage = Stage()
    (a, _), _ = pair(stage)
    again = back(stage, "a", version=8)
    assert (again.reply.leader, again.reply.members, again.reply.skip_assignment) == (a, [], False)
    assert stage.group().facts.leader == again.reply.member_id


def test_a_static_members_return_is_in_the_log() -> None:
    """KAFKA-10284: it was not, and after a failover the new member id was unknown."""
    stage = Stage()
    _, generation = pair(stage)
    new_b = back(stage, "b").reply.member_id
    stage.fail_over()
    assert stage.heartbeat(new_b, generation, instance="b") == 0
    assert stage.sync(new_b, generation, instance="b").reply.assignment == b"1"


def test_a_return_that_the_log_refuses_leaves_the_former_member_id() -> None:
    stage = Stage()
    (_, b), generation = pair(stage)
    stage.holds = True
    again = back(stage, "b")
    stage.refuse(19)
    assert again.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.heartbeat(b, generation, instance="b") == 0


def test_the_former_member_id_is_fenced_in_all_requests() -> None:
    stage = Stage()
    (_, b), generation = pair(stage)
    back(stage, "b")
    assert stage.heartbeat(b, generation, instance="b") == 82
    assert stage.sync(b, generation, instance="b").error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.join(b, instance="b").error == ErrorCode.FENCED_INSTANCE_ID
    assert [answer.error_code for answer in stage.leave((b, "b")).members] == [82]
    assert stage.heartbeat(b, generation) == 25


def test_an_unknown_instance_id_is_an_unknown_member() -> None:
    stage = Stage()
    (_, b), generation = pair(stage)
    assert stage.heartbeat(b, generation, instance="c") == 25


def test_a_duplicate_that_joins_while_the_first_waits_fences_it() -> None:
    stage = Stage(initial_delay_ms=3000)
    first = stage.join(instance="a")
    second = stage.join(instance="a")
    assert (first.error, first.reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a-id0")
    stage.wait(6000)
    assert second.error == 0


def test_a_return_that_would_change_the_protocol_begins_a_rebalance() -> None:
    stage = Stage()
    (a, _), generation = pair(stage, protocols=(("range", b"t"), ("sticky", b"t")))
    again = back(stage, "b", protocols=(("sticky", b"t"),))
    assert again.waits
    assert stage.heartbeat(a, generation, instance="a") == 27
    assert stage.group().facts.reason == "static member b changes the protocol"


def test_a_return_while_the_leader_assigns_begins_a_rebalance_and_fences_the_waiting_request() -> None:
    stage = Stage()
    stage.stopped = True
    joins = [stage.join(instance=instance) for instance in "ab"]
    stage.stopped = False
    stage.settle()
    waiting = stage.sync(joins[1].reply.member_id, 1, instance="b")
    again = back(stage, "b")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert again.waits
    assert stage.state() == "PreparingRebalance"


def test_a_static_member_that_is_away_is_kept_until_its_session_ends() -> None:
    stage = Stage()
    (a, b), generation = pair(stage, rebalance_ms=7_000, session_ms=60_000)
    again = stage.join(a, instance="a", rebalance_ms=7_000, session_ms=60_000)
    stage.wait(7_000)
    assert (again.error, again.reply.generation_id) == (0, generation + 1)
    assert b in stage.group().members


def test_another_leads_when_the_static_leader_does_not_join() -> None:
    stage = Stage()
    (a, b), _ = pair(stage, rebalance_ms=7_000, session_ms=60_000)
    again = stage.join(b, instance="b", protocols=(("range", b"u"),), rebalance_ms=7_000, session_ms=60_000)
    stage.wait(7_000)
    assert again.reply.leader == b
    assert sorted(member.member_id for member in again.reply.members) == sorted([a, b])


def test_a_rebalance_that_no_static_member_joins_is_waited_for_once_more() -> None:
    stage = Stage()
    (a, _), generation = pair(stage, rebalance_ms=7_000, session_ms=60_000)
    _, late = stage.come(rebalance_ms=7_000)
    stage.leave(late.request.member_id)
    stage.wait(7_000)
    assert stage.state() == "PreparingRebalance"
    stage.join(a, instance="a", rebalance_ms=7_000)
    stage.wait(7_000)
    assert stage.group().facts.generation == generation + 1


def test_an_operator_removes_a_static_member_by_its_instance_id_alone() -> None:
    stage = Stage()
    (_, b), _ = pair(stage)
    left = stage.leave(("", "b"), ("", "nobody"))
    assert [(answer.member_id, answer.group_instance_id, answer.error_code) for answer in left.members] == [
        ("", "b", 0),
        ("", "nobody", 25),
    ]
    assert b not in stage.group().members
    assert stage.group().facts.reason == "static member b was removed"


def test_a_known_static_member_keeps_its_instance_id_when_an_old_client_speaks_for_it() -> None:
    stage = Stage()
    (a, b), _ = pair(stage)
    stage.join(b, version=4, protocols=(("range", b"u"),))
    member = stage.group().members[b]
    assert (member.instance_id, member.protocols) == ("b", (Offered("range", b"u"),))
    assert dict(stage.group().statics) == {"a": a, "b": b}
