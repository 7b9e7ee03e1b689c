"""A follower's end of a pull session."""

from itertools import count

from libs.rpc.contracts.replication import PulledFrom
from services.storage.core.replication.follower.pulling import PullSession

A, B = (b"a" * 16, 0), (b"b" * 16, 3)


def at(key: tuple[bytes, int], offset: int, *, durable: int = 0, epoch: int = 1) -> PulledFrom:
    return PulledFrom(*key, epoch, offset, durable)


def session() -> PullSession:
    return PullSession(count(1).__next__)


def test_the_first_pull_names_everything() -> None:
    one = session()
    assert one.is_new
    sequence, partitions, dropped = one.next_pull({A: at(A, 1), B: at(B, 2)})
    assert (sequence, partitions, dropped) == (0, (at(A, 1), at(B, 2)), ())


def test_later_pulls_name_what_changed() -> None:
    one = session()
    one.next_pull({A: at(A, 1), B: at(B, 2)})
    one.name(A)
    one.name(B)
    assert one.next_pull({A: at(A, 5), B: at(B, 2)}) == (1, (at(A, 5),), ())
    assert one.next_pull({}) == (2, (), ())


def test_a_partition_that_the_leader_has_answered_is_named_again_even_if_nothing_changed() -> None:
    one = session()
    one.next_pull({A: at(A, 1)})
    one.name_again(A)
    assert one.next_pull({A: at(A, 1)}) == (1, (at(A, 1),), ())


def test_a_partition_that_only_became_durable_is_not_named_while_an_answer_may_be_on_its_way() -> None:
    """The leader would send the same batches twice, and count what it says the second time as known here."""
    one = session()
    one.next_pull({A: at(A, 1)})
    one.name(A)
    one.name_again(B)
    assert one.next_pull({A: at(A, 1, durable=1), B: at(B, 2)}, unanswered=True) == (1, (at(B, 2),), ())
    assert one.reported(A, 0) == at(A, 1)
    assert one.next_pull({A: at(A, 1, durable=1)}) == (2, (at(A, 1, durable=1),), ())


def test_an_answered_partition_is_named_whatever_is_on_its_way() -> None:
    one = session()
    one.next_pull({A: at(A, 1)})
    one.name_again(A)
    assert one.next_pull({A: at(A, 5)}, unanswered=True) == (1, (at(A, 5),), ())


def test_a_partition_that_left_is_dropped_once_and_answers_for_it_count_no_more() -> None:
    one = session()
    one.next_pull({A: at(A, 1), B: at(B, 2)})
    one.drop(A)
    assert one.reported(A, 0) is None
    assert one.next_pull({}) == (1, (), (A,))
    assert one.next_pull({}) == (2, (), ())


def test_a_partition_that_came_back_in_another_epoch_is_named_and_not_dropped() -> None:
    one = session()
    one.next_pull({A: at(A, 1)})
    one.drop(A)
    one.name_again(A)
    assert one.next_pull({A: at(A, 1, epoch=2)}) == (1, (at(A, 1, epoch=2),), ())


def test_an_answer_to_what_was_asked_before_it_came_back_is_no_answer() -> None:
    """Its log was set aside, and another begun: batches from where the former ended would leave a gap."""
    one = session()
    one.next_pull({A: at(A, 400)})
    one.drop(A)
    one.name_again(A)
    assert one.next_pull({A: at(A, 0)}, unanswered=True) == (1, (at(A, 0),), ())
    assert one.reported(A, 0) is None
    assert one.reported(A, 1) == at(A, 0)


def test_later_pulls_are_answered_for_positions_that_were_sent_before() -> None:
    one = session()
    one.next_pull({A: at(A, 1)})
    one.next_pull({})
    assert one.reported(A, 1) == at(A, 1)


def test_a_new_session_has_a_higher_number_and_forgets_the_sent_positions() -> None:
    one = session()
    one.next_pull({A: at(A, 1)})
    before = one.number
    one.drop(A)
    one.restart()
    assert one.number > before
    assert one.reported(A, 0) is None
    assert one.next_pull({B: at(B, 2)}) == (0, (at(B, 2),), ())


def test_another_session_knows_no_round_of_the_one_before() -> None:
    """The leader may have restarted, and counts its rounds from the start."""
    one = session()
    one.round = 7
    one.restart()
    assert one.round == 0
