"""The judge of `make chaos TRANSFERS=`: what it finds wrong, and what it does not."""

from collections.abc import Iterable

import pytest

from tests.system.chaos.transactions.committed_reads import CommittedRead, Reading, digest
from tests.system.chaos.transactions.tellers import ABORTED, COMMITTED, UNKNOWN
from tests.system.chaos.transactions.verdict import WRONG, shortfall, verdict

FIRST, SECOND = [(0, 0, "a -5"), (1, 0, "a 5")], [(0, 2, "b -7"), (1, 3, "b 7")]
"""The records of two transfers: partition, offset, value."""
ENDS = (4, 5)
OUTCOMES = {"a": COMMITTED, "b": UNKNOWN, "c": ABORTED}


def reading(records: Iterable[tuple[int, int, str]], ends: tuple[int, int] = ENDS) -> Reading:
    found = Reading(ends)
    for record in records:
        found.take(*record)
    return found


def wrong(
    last: Reading | None = None, copied: tuple[str, ...] = ("a -5", "a 5", "b -7", "b 7"), reads: tuple[CommittedRead, ...] = ()
) -> dict[str, list[str]]:
    """What the judge finds, without what it does not find."""
    found = verdict(OUTCOMES, last or reading([*FIRST, *SECOND]), {"copies": copied}, reads)
    assert set(found) == set(WRONG)
    return {name: items for name, items in found.items() if items}


def test_whole_transfers_and_their_copies_are_right() -> None:
    reads = (reading([], (0, 0)).as_read(), reading(FIRST, (1, 1)).as_read(), reading([*FIRST, *SECOND]).as_read())
    assert wrong(reads=reads) == {}


def test_a_transfer_with_one_half_is_torn() -> None:
    assert wrong(reading([*FIRST, SECOND[0]]), copied=("a -5", "a 5", "b -7")) == {"torn": ["b"]}


def test_a_transfer_that_was_stored_twice_is_torn() -> None:
    assert reading([*FIRST, (0, 1, "a -5"), (1, 1, "a 5")]).torn() == ["a"]


def test_a_transfer_with_a_sum_is_torn() -> None:
    assert reading([(0, 0, "a -5"), (1, 0, "a 6")]).torn() == ["a"]


def test_a_committed_transfer_that_nobody_sees_is_lost() -> None:
    assert wrong(reading(SECOND), copied=("b -7", "b 7")) == {"lost": ["a"]}


def test_an_aborted_transfer_that_is_seen_is_found() -> None:
    seen = [*FIRST, *SECOND, (0, 3, "c -1"), (1, 4, "c 1")]
    assert wrong(reading(seen), copied=tuple(value for *_, value in seen)) == {"not_aborted": ["c"]}


@pytest.mark.parametrize(
    ("copied", "found"),
    [
        (("a -5", "a 5", "b -7"), {"not_copied": ["copies: b 7"]}),
        (("a -5", "a 5", "b -7", "b 7", "b 7"), {"copied_twice": ["copies: b 7"]}),
    ],
)
def test_copies_equal_their_source(copied: tuple[str, ...], found: dict[str, list[str]]) -> None:
    assert wrong(copied=copied) == found


def test_a_half_behind_the_end_completes_a_transfer_and_counts_for_nothing_else() -> None:
    early = reading([*FIRST, *SECOND], ends=(4, 1))
    assert early.torn() == []
    assert early.as_read() == CommittedRead("librdkafka", (4, 1), [digest([(0, "a -5"), (2, "b -7")]), digest([(0, "a 5")])], [])
    assert wrong(reads=(early.as_read(),)) == {}


def test_a_transfer_that_begins_behind_the_ends_is_not_torn() -> None:
    assert reading([*FIRST, SECOND[1]], ends=(2, 1)).torn() == []


def test_a_read_with_half_a_transfer_is_torn() -> None:
    torn = reading([*FIRST, SECOND[0]], ends=(4, 1)).as_read()
    assert wrong(reads=(torn,)) == {"torn_reads": ["librdkafka to (4, 1): ['b']"]}


@pytest.mark.parametrize(
    "seen", [[*FIRST, (0, 1, "c -1"), (1, 1, "c 1")], SECOND, [(0, 1, "a -5"), FIRST[1]]], ids=["aborted", "missing", "moved"]
)
def test_a_read_that_saw_something_else_than_the_last_one_is_found(seen: list[tuple[int, int, str]]) -> None:
    assert wrong(reads=(reading(seen, ends=(3, 4)).as_read(),))["changed_reads"] == ["librdkafka to (3, 4)"]


def test_a_run_in_which_a_client_did_nothing_proves_too_little() -> None:
    found = {
        "faults": {"etcd killed": 1},
        "transfers": {"librdkafka": {COMMITTED: 2, ABORTED: 1}, "java": {COMMITTED: 2, ABORTED: 1}},
        "reads": {"librdkafka": 1, "java": 1},
    }
    assert shortfall(found) is None
    idle = {"faults": {}, "transfers": {"librdkafka": {COMMITTED: 2}, "java": {ABORTED: 1}}, "reads": {"java": 0}}
    assert shortfall(idle) == "no faults, no aborted by librdkafka, no committed by java, no reads by java"
