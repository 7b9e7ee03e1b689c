"""The judge of transactions: what it lets pass, and what it does not."""

from collections.abc import Sequence

import pytest

from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer, Transaction
from tests.simulation.cluster.transaction_ledger import MISSING_S_MAX, OPEN_S_MAX, Ended, Ledger

ID, PRODUCER_ID, TIMEOUT_S = "teller", 7, 8.0
HERE, THERE = "transfers-0", "transfers-1"
COMMIT, ABORT = Ended(PRODUCER_ID, 1, aborts=False), Ended(PRODUCER_ID, 1, aborts=True)
LONG_S = TIMEOUT_S + OPEN_S_MAX


class Scene:
    """A ledger, what it was told to find, and what leaders have beyond it. `ahead` is None where nobody leads."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.ledger = Ledger(self.violations.append)
        self.ahead: dict[str, Sequence[Ended] | None] = {}

    def is_now(self, *states: State, epoch: int = 1) -> None:
        for state in states:
            partitions = frozenset({("transfers", 0), ("transfers", 1)})
            transaction = Transaction(
                *(ID, Producer(PRODUCER_ID, epoch)), state=state, timeout_ms=int(TIMEOUT_S * 1000), partitions=partitions
            )
            self.ledger.changed(transaction, 0.0)

    def have(self, marker: Ended, *places: str) -> None:
        for place in places:
            self.ledger.marked(place, marker, 0.0)

    def check(self, now: float = 0.0) -> None:
        self.ledger.check(now, lambda place, _: self.ahead.get(place, ()))

    @property
    def unfinished(self) -> list[str]:
        return list(self.ledger.unfinished())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_transaction_that_was_committed_and_marked_everywhere_is_right(scene: Scene) -> None:
    scene.is_now(State.EMPTY, State.ONGOING)
    scene.ledger.written(HERE, PRODUCER_ID, 0.0)
    assert len(scene.unfinished) == 2
    scene.is_now(State.PREPARE_COMMIT)
    scene.have(COMMIT, HERE, THERE)
    scene.is_now(State.COMPLETE_COMMIT)
    scene.check(2 * LONG_S)
    assert scene.violations == []
    assert scene.unfinished == []


def test_two_outcomes_of_one_transaction_are_noticed(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    assert scene.violations == ["teller is PrepareCommit, then PrepareAbort"]


def test_the_outcomes_of_two_transactions_may_differ(scene: Scene) -> None:
    for state, complete, marker in (
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT, COMMIT),
        (State.PREPARE_ABORT, State.COMPLETE_ABORT, ABORT),
    ):
        scene.is_now(State.ONGOING, state)
        scene.have(marker, HERE, THERE)
        scene.is_now(complete)
    scene.check(2 * LONG_S)
    assert scene.violations == []
    assert scene.unfinished == []


def test_a_transaction_that_is_complete_without_a_marker_is_noticed(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT)
    scene.have(COMMIT, HERE)
    scene.is_now(State.COMPLETE_COMMIT)
    scene.check()
    assert scene.violations == ["teller is complete, and transfers-1 has no marker of it"]


def test_a_marker_that_only_the_leader_has_yet_counts(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT)
    scene.have(COMMIT, HERE)
    scene.is_now(State.COMPLETE_COMMIT)
    scene.ahead[THERE] = [COMMIT]
    scene.check()
    assert scene.violations == []


def test_where_nobody_leads_a_marker_is_asked_for_later(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    scene.ahead = {HERE: None, THERE: None}
    scene.check()
    assert scene.violations == []
    scene.ahead = {}
    scene.check()
    assert len(scene.violations) == 1


@pytest.mark.parametrize("marker", [ABORT, COMMIT._replace(epoch=2)])
def test_a_marker_of_another_outcome_or_epoch_is_noticed(scene: Scene, marker: Ended) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT)
    scene.have(marker, HERE)
    scene.check(MISSING_S_MAX)
    assert scene.violations == []  # its decision may be on replicas that are away
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == [f"transfers-0 has {marker}, and nobody has decided that"]


def test_a_marker_may_be_seen_before_its_decision(scene: Scene) -> None:
    scene.is_now(State.ONGOING)
    scene.have(COMMIT, HERE, THERE)
    scene.is_now(State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == []


def test_a_marker_that_was_written_twice_is_none_of_the_next_transaction(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT)
    scene.have(COMMIT, HERE, HERE, THERE)
    scene.is_now(State.COMPLETE_COMMIT, State.ONGOING, State.PREPARE_ABORT)
    scene.have(ABORT, HERE)
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == []
    assert any("transfers-1 lacks markers" in what for what in scene.unfinished)


def test_a_marker_behind_new_batches_is_of_a_transaction_whose_decision_is_not_known_yet(scene: Scene) -> None:
    scene.is_now(State.ONGOING, State.PREPARE_COMMIT)
    scene.have(COMMIT, HERE, THERE)
    for place in (HERE, THERE):
        scene.ledger.written(place, PRODUCER_ID, 0.0)
    scene.have(COMMIT, HERE, THERE)
    scene.is_now(State.COMPLETE_COMMIT, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == []
    assert scene.unfinished == []


def test_a_marker_that_was_written_twice_takes_no_decision_from_equal_ones_behind_it(scene: Scene) -> None:
    for _ in range(3):
        scene.is_now(State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT)
    for repeated in (2, 1, 1):
        scene.ledger.written(HERE, PRODUCER_ID, 0.0)
        scene.have(ABORT, *[HERE] * repeated, THERE)
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == []
    assert scene.unfinished == []
    scene.ledger.written(HERE, PRODUCER_ID, 0.0)
    scene.have(ABORT, HERE)
    scene.check(MISSING_S_MAX + 1)
    assert scene.violations == [f"transfers-0 has {ABORT}, and nobody has decided that"]


def test_a_transaction_that_stays_open_is_noticed_once(scene: Scene) -> None:
    scene.is_now(State.ONGOING)
    scene.check(LONG_S)
    assert scene.violations == []
    scene.check(LONG_S + 1)
    scene.check(LONG_S + 2)
    assert scene.violations == ["teller is Ongoing since 69 s"]


def test_a_batch_that_no_marker_follows_is_noticed_once(scene: Scene) -> None:
    scene.is_now(State.EMPTY)
    scene.ledger.written(HERE, PRODUCER_ID, 0.0)
    scene.check(LONG_S + 1)
    scene.check(LONG_S + 2)
    assert scene.violations == ["transfers-0 has a transaction of producer 7 that is open since 69 s"]
