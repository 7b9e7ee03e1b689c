"""No turn of an event loop works in proportion to state that clients grow, but for those with a bound and a reason."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers import producer_state
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.producers.producer_table import PackedProducers
from libs.commitlog.producers.transactions import UnstableTransactions
from libs.commitlog.segments import segment_indexes
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.introspection import groups as group_views
from services.transaction_coordinator.core import transaction_machine
from tests.commitlog.harness import open_log
from tests.simulation.turn_work.counting import Work, work_of
from tests.simulation.turn_work.turns import STATES, Turn, groups, open_transactions, producers

GROWTH: Final = 10
SIZES: Final[dict[str, int]] = {"producers": 700, "open_transactions": 60, "groups": 12, "members": 8, "transactional_ids": 30}
SMALL: Final = 50
"""The smaller size of other states."""
GROWN: Final = 1.5
"""How much more a turn on ten times the state may do. Trees, and copies of buckets, grow a little."""
SLACK: Final = Work(500, 24_000)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns look at so few producers that the small state has more."""
    monkeypatch.setattr(producer_state, "LOOKED_AT_AT_ONCE", 200)
    monkeypatch.setattr(segment_indexes, "INTERVAL_BYTES_MAX", 600)
    monkeypatch.setattr(transaction_machine, "LOOKED_AT_ONCE", 20)
    monkeypatch.setattr(group_views, "LOOKED_AT_ONCE", 5)
    monkeypatch.setattr(group_views, "LISTED_MAX", 5)


PROPORTIONAL: Final[dict[tuple[str, str], str]] = {
    ("topics", "changes of another leader"): "a comparison for each topic, 0.1 µs, and topics are made by a controller",
    ("topics", "groups' view of a new topic"): "a look at each topic, 0.5 µs, when one comes or goes",
}
"""The turns that may grow, each with the reason and its bound (docs/rules.md, *Work that clients can grow*)."""


def grown(state: Callable[[Log, int], Iterator[Turn]], directory: Path) -> dict[str, tuple[Work, Work]]:
    """The turns whose work grows with the state, each with its work on the small state and on the large one."""
    count = SIZES.get(state.__name__, SMALL)
    small, large = (
        {name: work_of(turn) for name, turn in state(open_log(directory / str(size)), size)} for size in (count, GROWTH * count)
    )
    assert small.keys() == large.keys()
    return {name: (work, large[name]) for name, work in small.items() if _grows(work, large[name])}


def _grows(small: Work, large: Work) -> bool:
    return any(after > GROWN * before + slack for before, after, slack in zip(small, large, SLACK, strict=True))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_no_turn_grows_with_state_of_clients(state: Any, tmp_path: Path) -> None:
    reasons = {turn: reason for (name, turn), reason in PROPORTIONAL.items() if name == state.__name__}
    found = grown(state, tmp_path)
    assert set(found) == set(reasons), found


# -- planted bugs ---------------------------------------------------------------------------------------------------------------


def test_a_save_that_walks_all_producers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ProducerState.as_of

    def as_of(self: ProducerState, end_offset: int) -> PackedProducers:
        return right(self, end_offset).with_changes(dict.fromkeys(self.entries, b""))

    monkeypatch.setattr(ProducerState, "as_of", as_of)
    assert {"roll", "resume point"} <= grown(producers, tmp_path).keys()


def test_a_save_that_copies_all_producers_in_c_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ProducerState.as_of

    def as_of(self: ProducerState, end_offset: int) -> PackedProducers:
        assert b"".join(map(b"".join, self.entries.slices()))
        return right(self, end_offset)

    monkeypatch.setattr(ProducerState, "as_of", as_of)
    assert {"roll", "resume point"} <= grown(producers, tmp_path).keys()


def test_an_expiry_that_looks_at_all_producers_at_once_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "LOOKED_AT_AT_ONCE", 1 << 30)
    assert {"expiry of none", "expiry of all"} <= grown(producers, tmp_path).keys()


def test_a_marker_that_walks_all_open_transactions_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Any, producer_id: int, first_offset: int) -> None:
        self._ongoing = [each for each in self._ongoing if each != (first_offset, producer_id)]

    monkeypatch.setattr(UnstableTransactions, "_drop", drop)
    assert "marker" in grown(open_transactions, tmp_path)


def test_a_view_that_looks_at_all_groups_at_once_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_views, "LOOKED_AT_ONCE", 1 << 30)
    assert {"first turn of /debug/groups", "first turn of lag metrics"} <= grown(groups, tmp_path).keys()


def test_a_heartbeat_that_counts_all_groups_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ClassicGroups.decide_heartbeat

    def decide(self: Any, *how: Any) -> Any:
        assert sum(len(group.members) for group in self.groups.values()) >= 0
        return right(self, *how)

    monkeypatch.setattr(ClassicGroups, "decide_heartbeat", decide)
    assert "heartbeat" in grown(groups, tmp_path)
