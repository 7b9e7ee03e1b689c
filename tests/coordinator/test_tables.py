"""Tables and timers take back what was noted, exactly, and nothing else."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import RETRY_MS, Timers
from libs.coordinator.core.write_errors import client_error
from libs.wire.errors import ErrorCode

Change = Callable[[Table[str, int]], object]
CHANGES: dict[str, Change] = {
    "put": lambda table: table.__setitem__("c", 9),
    "put over": lambda table: table.__setitem__("a", 9),
    "delete": lambda table: table.__delitem__("a"),
    "pop": lambda table: table.pop("b"),
    "pop what is not there": lambda table: table.pop("x", 0),
    "popitem": lambda table: table.popitem(),
    "clear": lambda table: table.clear(),
    "update by a dict": lambda table: table.update({"a": 5, "d": 6}),
    "update by pairs": lambda table: table.update([("a", 5), ("d", 6)]),
    "or": lambda table: table.__ior__({"a": 5, "d": 6}),
    "setdefault": lambda table: (table.setdefault("a", 5), table.setdefault("d", 6)),
}


def filled() -> tuple[Journal, Table[str, int]]:
    journal = Journal()
    table: Table[str, int] = Table(journal)
    table.update({"a": 1, "b": 2})
    journal.forget_to(journal.mark)
    return journal, table


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_way_to_change_a_table_does_what_a_dict_does_and_is_taken_back(change: Change) -> None:
    journal, table = filled()
    mark = journal.mark
    plain = {"a": 1, "b": 2}
    change(table)
    change(plain)  # type: ignore[arg-type]
    assert table == plain
    journal.revert_to(mark)
    assert table == {"a": 1, "b": 2}


def test_a_missing_key_cannot_be_deleted_and_leaves_no_note() -> None:
    journal, table = filled()
    with pytest.raises(KeyError):
        del table["x"]
    with pytest.raises(KeyError):
        table.pop("x")
    assert not len(journal)


def test_changes_read_from_the_log_are_not_noted() -> None:
    journal, table = filled()
    journal.recording = False
    table["c"] = 3
    table.pop("a")
    assert not len(journal)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(0, 9)),
        st.tuples(st.just("pop"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("mark"), st.just(""), st.just(0)),
        st.tuples(st.just("commit"), st.just(""), st.integers(0, 3)),
        st.tuples(st.just("revert"), st.just(""), st.integers(0, 3)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(moves)
def test_any_mark_that_is_not_committed_can_be_gone_back_to(done: list[tuple[str, str, int]]) -> None:
    journal = Journal()
    tables: list[Table[str, int]] = [Table(journal), Table(journal)]
    marks: list[tuple[int, list[dict[str, int]]]] = []
    for what, key, number in done:
        if what == "put":
            tables[number % 2][key] = number
        elif what == "pop":
            tables[number % 2].pop(key, 0)
        elif what == "mark":
            marks.append((journal.mark, [dict(table) for table in tables]))
        elif marks and what == "commit":
            which = min(number, len(marks) - 1)
            journal.forget_to(marks[which][0])
            del marks[:which]
        elif marks:
            which = min(number, len(marks) - 1)
            mark, before = marks[which]
            journal.revert_to(mark)
            assert [dict(table) for table in tables] == before
            del marks[which + 1 :]


def test_a_deadline_goes_back_with_its_decision() -> None:
    timers = Timers()
    timers.set({"a": 10, "b": 20}, undoable=False)
    mark = timers.mark
    timers.set({"a": 50, "b": None, "c": 5}, undoable=True)
    assert timers.next_deadline() == 5
    timers.revert_to(mark)
    assert [timers.deadline(key) for key in "abc"] == [10, 20, None]
    assert timers.next_deadline() == 10


def test_a_member_that_was_heard_of_since_is_not_forgotten_by_somebody_elses_failure() -> None:
    timers = Timers()
    timers.set({"session": 10}, undoable=False)
    mark = timers.mark
    timers.set({"session": 20}, undoable=True)
    timers.set({"session": 30}, undoable=False)
    timers.revert_to(mark)
    assert timers.deadline("session") == 30


def test_a_timer_whose_decision_failed_comes_again_a_little_later() -> None:
    timers = Timers()
    timers.set({"a": 10}, undoable=False)
    mark = timers.mark
    assert timers.take_due(9) is None
    assert timers.take_due(15) == "a"
    assert timers.take_due(15) is None
    timers.revert_to(mark)
    assert timers.deadline("a") == 15 + RETRY_MS


def test_timers_come_in_the_order_of_their_deadlines_and_then_of_their_age() -> None:
    timers = Timers()
    timers.set({"c": 10, ("a", 1): 10, "b": 5}, undoable=False)
    timers.set({"b": 12}, undoable=False)
    assert [timers.take_due(99) for _ in range(4)] == ["c", ("a", 1), "b", None]


def test_deadlines_that_move_often_leave_little_behind() -> None:
    timers = Timers()
    for at in range(10_000):
        timers.set({"session": at}, undoable=False)
    assert len(timers._heap) < 100


def test_write_errors_are_mapped_as_in_kafka() -> None:
    answer = {15: (3, 19, 7, 20), 16: (6, 56), -1: (10, 18, 4)}
    for heard, errors in answer.items():
        assert [client_error(error) for error in errors] == [heard] * len(errors)
    assert client_error(ErrorCode.INVALID_RECORD) == ErrorCode.INVALID_RECORD


def test_a_callback_is_called_once_when_all_changes_before_it_are_committed() -> None:
    journal, table = filled()
    answer: list[str] = []
    table["c"] = 1
    first = journal.mark
    journal.when_committed(lambda: answer.append("one"))
    journal.forget_to(first)
    assert not answer, "it was said after that"
    table["d"] = 2
    second = journal.mark
    journal.when_committed(lambda: answer.append("two"))
    journal.forget_to(second)
    journal.forget_to(second)
    assert answer == ["one"]
    journal.forget_to(journal.mark)
    assert answer == ["one", "two"]


def test_a_callback_of_a_reverted_change_is_never_called() -> None:
    journal, table = filled()
    answer: list[str] = []
    journal.when_committed(lambda: answer.append("stays"))
    mark = journal.mark
    table["a"] = 5
    journal.when_committed(lambda: answer.append("is taken back"))
    journal.revert_to(mark)
    table["b"] = 5
    journal.forget_to(journal.mark)
    assert (answer, table) == (["stays"], {"a": 1, "b": 5})
