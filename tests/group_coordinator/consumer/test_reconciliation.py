"""Reconciliation: a partition is assigned only after it was revoked. A member that revokes goes on; one that does
not is removed."""

from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.records import MemberState
from tests.group_coordinator.consumer.stage import Stage


def two(stage: Stage) -> None:
    """`a` has all partitions, `b` waits for half of them, and `a` was told to revoke these."""
    stage.join("a", "t")
    stage.join("b", "t")
    answer = stage.beat("a", 1, {"t": [0, 1, 2, 3]})
    assert (answer.epoch, answer.assigned) == (1, {"t": [0, 1]})


def test_a_newcomer_waits_for_what_others_have() -> None:
    stage = Stage(t=4)
    stage.join("a", "t")
    joined = stage.join("b", "t")
    assert (joined.epoch, joined.assigned) == (2, {})
    assert stage.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert stage.state() == "Reconciling"


def test_revoked_partitions_go_to_the_member_that_waits() -> None:
    stage = Stage(t=4)
    two(stage)
    assert stage.beat("b", 2).assigned is None
    done = stage.beat("a", 1, {"t": [0, 1]})
    assert (done.epoch, done.assigned) == (2, None)
    got = stage.beat("b", 2)
    assert (got.epoch, got.assigned) == (2, {"t": [2, 3]})
    assert stage.state() == "Stable"


def test_a_member_that_reports_a_partition_has_not_revoked_it() -> None:
    stage = Stage(t=4)
    two(stage)
    assert stage.beat("a", 1, {"t": [0, 1, 2]}).epoch == 1
    assert stage.beat("a", 1).epoch == 1
    assert stage.beat("b", 2).assigned is None
    assert stage.group().holders.keys() >= {(next(iter(stage.group().targets["a"])), 3)}


def test_a_member_that_does_not_own_it_any_more_skips_the_revocation() -> None:
    stage = Stage(t=4)
    stage.join("a", "t")
    stage.join("b", "t")
    assert stage.beat("a", 1, {"t": [0, 1]}).epoch == 2
    assert stage.beat("b", 2).assigned == {"t": [2, 3]}


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    stage = Stage(t=4)
    two(stage)
    for _ in range(59):
        stage.wait(1000)
        stage.beat("a", 1, {"t": [0, 1, 2, 3]})
        stage.beat("b", 2)
    assert "a" in stage.group().members
    stage.wait(1000)
    assert set(stage.group().members) == {"b"}
    assert stage.group().facts.reason == "member a did not give up its partitions within 60000 ms"
    assert stage.beat("b", 2).assigned == {"t": [0, 1, 2, 3]}
    assert stage.beat("a", 1, {"t": [0, 1]}).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_revoked_is_not_removed_later() -> None:
    stage = Stage(t=4)
    two(stage)
    stage.beat("a", 1, {"t": [0, 1]})
    for _ in range(70):
        stage.wait(1000)
        assert stage.beat("a", 2).error == 0
        assert stage.beat("b", 2).error == 0
    assert stage.state() == "Stable"


def test_a_new_owner_gives_the_whole_rebalance_timeout_again() -> None:
    stage = Stage(t=4)
    two(stage)
    stage.wait(40_000)
    stage.fail_over()
    for _ in range(59):
        stage.wait(1000)
        stage.beat("a", 1, {"t": [0, 1, 2, 3]})
        stage.beat("b", 2)
    assert "a" in stage.group().members
    stage.wait(1000)
    assert "a" not in stage.group().members


def test_an_epoch_from_the_future_is_fenced() -> None:
    stage = Stage()
    stage.join("a", "t")
    refused = stage.beat("a", 2)
    assert refused.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (2) than the one known by the group coordinator (1)" in refused.reply.error_message
    assert "a" in stage.group().members


def test_an_epoch_of_the_past_is_fenced() -> None:
    stage = Stage(t=4)
    two(stage)
    stage.beat("a", 1, {"t": [0, 1]})
    stage.beat("a", 2, {"t": [0, 1]})
    refused = stage.beat("a", 1, {"t": [0, 1, 2, 3]})
    assert refused.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert "smaller member epoch (1)" in refused.reply.error_message


def test_a_member_that_missed_the_last_answer_comes_with_its_former_epoch() -> None:
    stage = Stage(t=4)
    two(stage)
    stage.beat("a", 1, {"t": [0, 1]})  # the answer with epoch 2 is lost
    again = stage.beat("a", 1, {"t": [0, 1]})
    assert again.epoch == 2


def test_the_former_epoch_is_refused_to_a_member_that_does_not_report_its_partitions() -> None:
    stage = Stage(t=4)
    two(stage)
    stage.beat("a", 1, {"t": [0, 1]})
    assert stage.beat("a", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.beat("a", 1, {"t": [0, 3]}).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.beat("a", 1, {"u": [0]}).error == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_asks_for_less_gives_it_up_before_a_new_target_is_made_for_others() -> None:
    stage = Stage(t=2, u=2)
    stage.join("a", "t", "u")
    answer = stage.beat("a", 1, {"t": [0, 1], "u": [0, 1]}, topics=["t"])
    assert (answer.epoch, answer.assigned) == (1, {"t": [0, 1]})
    done = stage.beat("a", 1, {"t": [0, 1]})
    assert (done.epoch, done.assigned) == (2, None)
    assert stage.group().facts.reason == "member a changed its subscription: dropped u"


def test_partitions_of_a_departed_member_go_to_others_at_once() -> None:
    stage = Stage(t=4)
    stage.join("a", "t")
    stage.leave("a")
    assert stage.join("b", "t").assigned == {"t": [0, 1, 2, 3]}


def test_a_member_that_joins_again_in_the_middle_has_revoked_all() -> None:
    stage = Stage(t=4)
    two(stage)
    again = stage.join("a", "t")
    assert (again.epoch, again.assigned) == (2, {"t": [0, 1]})
    assert stage.beat("b", 2).assigned == {"t": [2, 3]}
