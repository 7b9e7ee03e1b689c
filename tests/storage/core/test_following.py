"""A follower's decision about one answer of its leader."""

from dataclasses import replace

import pytest

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.rpc.contracts.replication import Pulled
from services.storage.core.replication.follower.following import (
    TRANSITIONS,
    Append,
    Decision,
    Drop,
    Event,
    LocalLog,
    Retry,
    State,
    Truncate,
    TruncateFully,
    begins_within,
    decide,
    position,
)

EPOCH = 9


def own(*epochs: tuple[int, int], start: int = 0, end: int = 10, followed: int = EPOCH) -> LocalLog:
    """`epochs`: (epoch, where it began)."""
    cache = LeaderEpochs(epochs)
    last = cache.epoch_for(end - 1) if end > start else -1
    return LocalLog(followed, start, end, last, lambda epoch: cache.end_offset_for(epoch, end))


def answer(error: int = 0, *, epoch: int = EPOCH, high_watermark: int = 0, start: int = 0, end: int = 10) -> Pulled:
    return Pulled(b"t" * 16, 0, error, epoch, high_watermark, start, end)


def parted(epoch: int, end_offset: int, mine: LocalLog) -> Decision:
    return decide(replace(answer(high_watermark=100), diverging_epoch=epoch, diverging_end_offset=end_offset), mine)


def test_batches_that_continue_the_log_are_appended() -> None:
    assert decide(answer(), own((3, 0))) == Append()


def test_logs_are_cut_by_epoch_and_not_by_high_watermark() -> None:
    """KIP-101: the leader's end of the epoch decides, whatever is committed."""
    assert parted(3, 7, own((3, 0))) == Truncate(7)


def test_a_cut_never_goes_beyond_the_own_end_of_the_epoch() -> None:
    assert parted(3, 8, own((3, 0), (4, 6))) == Truncate(6)


def test_an_epoch_that_only_the_leader_knows_leads_to_the_next_smaller_one() -> None:
    """KIP-279, KAFKA-6361: after two fast failovers the two walk back until they agree."""
    mine = own((2, 0), (5, 4), (6, 8))
    assert parted(4, 9, mine) == Truncate(4)  # the end of epoch 2 here: 4 began there for the leader alone
    assert parted(2, 3, own((2, 0), end=4)) == Truncate(3)


def test_each_answer_that_tells_of_a_parting_makes_the_log_shorter() -> None:
    """Or the two would never come to an end."""
    for leaders_epoch in range(6):
        for leaders_end in range(12):
            mine = own((1, 0), (3, 4), (5, 7))
            if leaders_epoch == mine.last_epoch and leaders_end >= mine.log_end:
                continue  # this leader has all of it: it says no such thing
            decision = parted(leaders_epoch, leaders_end, mine)
            assert isinstance(decision, TruncateFully) or (isinstance(decision, Truncate) and decision.offset < mine.log_end)


def test_a_parting_comes_before_the_leaders_high_watermark() -> None:
    """KAFKA-14704."""
    assert not isinstance(parted(3, 7, own((3, 0))), Append)


def test_a_parting_before_the_log_start_leaves_nothing_of_it() -> None:
    assert parted(3, 2, own((3, 5), start=5)) == TruncateFully(0, 0)


def test_a_log_that_ends_before_the_leaders_start_begins_anew_there() -> None:
    assert decide(answer(1, start=50, end=80), own((3, 0))) == TruncateFully(50, 50)


def test_a_log_that_ends_after_the_leaders_is_cut_to_its_end() -> None:
    assert decide(answer(1, start=0, end=4), own((3, 0))) == Truncate(4)
    assert decide(answer(1, start=2, end=4), own((3, 6), start=6)) == TruncateFully(2, 2)


def test_an_offset_that_came_into_range_meanwhile_is_asked_for_again() -> None:
    assert decide(answer(1, start=0, end=40), own((3, 0))) == Retry(1)
    assert decide(answer(1, start=-1, end=-1), own((3, 0))) == Retry(1)


def test_batches_of_an_epoch_that_the_leader_never_heard_of_are_cut() -> None:
    assert decide(answer(1, end=40), own((3, 0), (EPOCH + 2, 6))) == Truncate(6)


@pytest.mark.parametrize("pulled", [answer(epoch=EPOCH - 1), answer(epoch=EPOCH + 1), answer(epoch=-1)])
def test_answers_of_another_epoch_are_dropped(pulled: Pulled) -> None:
    """KAFKA-7164, KAFKA-13207: what an older or newer leader says is about another log."""
    assert decide(pulled, own((3, 0))) == Drop()
    assert decide(replace(pulled, diverging_epoch=2, diverging_end_offset=1), own((3, 0))) == Drop()


def test_an_offset_out_of_range_of_another_epoch_cuts_nothing() -> None:
    assert decide(answer(1, epoch=EPOCH - 1, start=50, end=60), own((3, 0))) == Retry(1)


def test_an_empty_follower_may_begin_within_a_batch() -> None:
    """KAFKA-6975: DeleteRecords left the leader's start in the middle of one."""
    empty = own(start=25, end=25)
    assert begins_within(20, 29, empty) == TruncateFully(20, 25)
    assert begins_within(20, 24, empty) is None
    assert begins_within(20, 29, own((3, 0), start=0, end=25)) is None
    assert position(25, 20) == 25


def test_a_follower_that_was_cut_within_the_leaders_first_batch_begins_anew() -> None:
    """The leader had forgotten the epochs of what is here, and told that they end where it starts."""
    here = own((3, 0), start=0, end=25)
    assert begins_within(20, 29, here, leaders_start=25) == TruncateFully(20, 25)
    assert begins_within(20, 29, here, leaders_start=24) is None


def test_states_end_when_the_partition_is_let_go() -> None:
    for state in State:
        if state is not State.STOPPED:
            assert TRANSITIONS[state, Event.REVOKED] is State.STOPPED


def test_every_state_is_reached_and_left() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State) == set(TRANSITIONS.values())
