"""The table of what follows where a leader did not store a batch: each end of a try, with each batch."""

from itertools import product

import pytest

from services.gateway.core.resending import PAUSE_S_FIRST, PAUSE_S_MAX, RESENDING, Ended, Sent, Then, pause_s, what_follows

BATCHES = [Sent(*facts) for facts in product((False, True), repeat=len(Sent._fields))]
EVERYTHING = [(ended, batch) for ended in Ended for batch in BATCHES]
HEARD_OF = (Ended.BROKEN, Ended.TIMED_OUT, Ended.REPLACED, Ended.ABANDONED)
"""The node may have received the batch, and may have stored it."""


def test_each_end_of_a_try_has_rows_and_the_last_one_always_holds() -> None:
    assert RESENDING.keys() == set(Ended)
    assert all(what_follows(ended, batch) in Then for ended, batch in EVERYTHING)


def test_no_batch_without_a_producer_id_is_sent_again_where_it_may_be_stored() -> None:
    for ended, batch in EVERYTHING:
        if not batch.identified and (ended in HEARD_OF or (ended is Ended.REFUSED and batch.in_log)):
            assert what_follows(ended, batch) is not Then.PARK


def test_a_refused_batch_with_others_behind_it_waits_only_if_all_of_them_are_refused() -> None:
    """So a batch without a producer id never waits: its node does not refuse what is behind it by that id."""
    for batch in BATCHES:
        if not batch.alone and not (batch.identified and batch.deposed):
            assert what_follows(Ended.REFUSED, batch) is Then.FAIL


def test_a_batch_that_nobody_waits_for_is_not_sent_again_after_a_refusal() -> None:
    for batch in BATCHES:
        if batch.gone or not batch.answered:
            assert what_follows(Ended.REFUSED, batch) is Then.FAIL


def test_only_a_former_leader_is_waited_for_and_once() -> None:
    waits = {ended for ended, batch in EVERYTHING if what_follows(ended, batch) is Then.AWAIT}
    assert waits == {Ended.REPLACED}


@pytest.mark.parametrize(
    ("ended", "batch", "then"),
    [
        (Ended.UNSENT, Sent(identified=False), Then.PARK),
        (Ended.BROKEN, Sent(identified=True), Then.PARK),
        (Ended.BROKEN, Sent(identified=False), Then.FAIL),
        (Ended.TIMED_OUT, Sent(identified=True), Then.FAIL),
        (Ended.REPLACED, Sent(identified=True), Then.PARK),
        (Ended.REPLACED, Sent(identified=True, answered=False), Then.AWAIT),
        (Ended.ABANDONED, Sent(identified=True), Then.PARK),
        (Ended.ABANDONED, Sent(identified=False), Then.FAIL),
        (Ended.REFUSED, Sent(identified=False, alone=True), Then.PARK),
        (Ended.REFUSED, Sent(identified=True, deposed=True), Then.PARK),
        (Ended.REFUSED, Sent(identified=False, alone=True, in_log=True), Then.FAIL),
        (Ended.REFUSED, Sent(identified=True, alone=True, in_log=True), Then.PARK),
    ],
)
def test_what_follows(ended: Ended, batch: Sent, then: Then) -> None:
    assert what_follows(ended, batch) is then


def test_pauses_double_in_one_epoch_and_are_long_where_a_newer_one_is_known() -> None:
    pauses = [pause_s(newer_elsewhere=False, former_s=None)]
    while pauses[-1] < PAUSE_S_MAX:
        pauses.append(pause_s(newer_elsewhere=False, former_s=pauses[-1]))
    assert pauses == [PAUSE_S_FIRST * 2**number for number in range(5)]
    assert pause_s(newer_elsewhere=False, former_s=PAUSE_S_MAX) == PAUSE_S_MAX
    assert pause_s(newer_elsewhere=True, former_s=None) == PAUSE_S_MAX
