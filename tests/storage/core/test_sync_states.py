"""What partitions owe their disk: each cell of both tables, and whatever happens against a model that knows no table."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.storage.core import sync_states
from services.storage.core.sync_states import (
    PARTITION_TRANSITIONS,
    ROUND_TRANSITIONS,
    Fact,
    Round,
    RoundFact,
    State,
    SyncStates,
)

# -- the cells ------------------------------------------------------------------------------------------------------------

NOW = 5.0


def take(states: SyncStates[str]) -> None:
    """A round takes what it looked at, and that was dirty."""
    states.dirty["p"] = None
    states.take("p")


METHODS: dict[Fact, Callable[[SyncStates[str]], object]] = {
    Fact.APPENDED: lambda states: states.appended("p"),
    Fact.APPENDED_UNHURRIED: lambda states: states.appended_unhurried("p", NOW),
    Fact.OVERDUE: lambda states: states.flush(lambda partition, since: True),
    Fact.FILES_SCARCE: lambda states: states.files_became_scarce(),
    Fact.REQUESTED: lambda states: states.request("p"),
    Fact.ADMITTED: lambda states: states.to_look_at(),
    Fact.TAKEN: take,
    Fact.SYNCED: lambda states: states.synced([]),
    Fact.INTERRUPTED: lambda states: states.interrupted(NOW),
    Fact.DROPPED: lambda states: states.dropped(),
    Fact.INDEXES_WAIT: lambda states: states.synced(["p"]),
    Fact.NO_ROOM: lambda states: states.found_no_room(["p"]),
    Fact.LEFT: lambda states: states.forget("p"),
}
"""How each fact is told. Those that are not here have no method of their own."""


def told(states: SyncStates[str], fact: Fact) -> None:
    if fact in METHODS:
        METHODS[fact](states)
    else:
        states.happened("p", fact)


def in_state(state: State) -> SyncStates[str]:
    states: SyncStates[str] = SyncStates()
    if state is not State.CLEAN:
        states.held()[state]["p"] = NOW if state is State.UNHURRIED else None
    return states


@pytest.mark.parametrize(("state", "fact"), list(product(State, Fact)))
def test_a_fact_moves_a_partition_as_its_cell_says(state: State, fact: Fact) -> None:
    states = in_state(state)
    told(states, fact)
    expected = {PARTITION_TRANSITIONS.get((state, fact), state), PARTITION_TRANSITIONS.get((State.CLEAN, fact), State.CLEAN)}
    if fact is Fact.INDEXES_WAIT:
        expected.discard(State.IN_ROUND)  # it is told of a round that ended well
    if fact is Fact.TAKEN:
        expected.add(State.IN_ROUND)
    assert states.states_of("p") == expected - {State.CLEAN}


@pytest.mark.parametrize("fact", [Fact.TAKEN, Fact.SETTLED, Fact.POSTPONED, Fact.FAULTY])
def test_a_partition_that_a_round_looked_at_is_in_one_of_its_outcomes(fact: Fact) -> None:
    """Whatever else it owed."""
    states: SyncStates[str] = SyncStates()
    for state in (State.DIRTY, State.UNHURRIED, State.REQUESTED, State.AWAITING_RESUME_POINT, State.UNWRITTEN):
        states.held()[state]["p"] = NOW
    assert states.to_look_at() == ["p"]
    assert states.states_of("p") == {State.DIRTY}
    states.happened("p", fact)
    outcome = {Fact.TAKEN: State.IN_ROUND, Fact.POSTPONED: State.DIRTY, Fact.FAULTY: State.LEFT_OUT}
    assert states.states_of("p") == ({outcome[fact]} if fact in outcome else set())


@pytest.mark.parametrize("before", list(State))
def test_nothing_but_a_good_end_or_a_departure_takes_a_partition_out_of_durability(before: State) -> None:
    """Rule: no log whose end is not durable owes nothing."""
    owing = {state for state in State if in_state(state).owes_sync("p")}
    assert owing == {State.DIRTY, State.UNHURRIED, State.REQUESTED, State.IN_ROUND, State.LEFT_OUT}
    ends = {Fact.SETTLED, Fact.SYNCED, Fact.DROPPED, Fact.LEFT}
    for fact in set(Fact) - ends if before in owing else ():
        states = in_state(before)
        if fact in (Fact.LOOKED_AT, Fact.TAKEN, Fact.POSTPONED, Fact.FAULTY):
            states.dirty["p"] = None  # a round looks at what is dirty
        if fact is not Fact.INDEXES_WAIT:
            told(states, fact)
        assert states.owes_sync("p"), fact


def round_told(states: SyncStates[str], fact: RoundFact) -> None:
    match fact:
        case RoundFact.TOO_EARLY:
            states.pause()
        case RoundFact.PAUSE_OVER:
            states.pause_over()
        case RoundFact.BEGUN:
            states.in_round["p"] = None
            states.begin()
        case RoundFact.HUNG:
            states.hang()
        case RoundFact.ENDED:
            states.end()
        case RoundFact.FAILED:
            states.retire()


@pytest.mark.parametrize(("before", "fact"), list(product(Round, RoundFact)))
def test_rounds_go_as_their_cell_says(before: Round, fact: RoundFact) -> None:
    states: SyncStates[str] = SyncStates()
    states.round = before
    again = (before is Round.PAUSED and fact is RoundFact.TOO_EARLY) or (states.retired and fact is RoundFact.FAILED)
    if (before, fact) in ROUND_TRANSITIONS or again:
        round_told(states, fact)
        assert states.round is ROUND_TRANSITIONS.get((before, fact), before)
    else:
        with pytest.raises(KeyError):
            round_told(states, fact)


def test_no_way_leads_out_of_retirement_and_no_round_begins_there() -> None:
    retired = {Round.LAST, Round.LAST_HANGING, Round.RETIRED}
    assert {after for (before, _), after in ROUND_TRANSITIONS.items() if before in retired} <= retired
    assert {before for before, fact in ROUND_TRANSITIONS if fact is RoundFact.BEGUN} == {Round.IDLE}


def test_a_retired_directory_owes_nothing() -> None:
    states: SyncStates[str] = SyncStates()
    for partitions in states.held().values():
        partitions["p"] = NOW
    assert states.retire()
    assert states.states_of("p") == set()
    assert not states.retire()


def test_flush_ms_counts_from_the_first_append_that_waits() -> None:
    states: SyncStates[str] = SyncStates()
    for now in (NOW, NOW + 1):
        states.appended_unhurried("p", now)
    states.flush(lambda partition, since: since == NOW)
    assert states.states_of("p") == {State.DIRTY}


def test_a_round_with_nobody_in_it_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        SyncStates[str]().begin()


def test_a_partition_in_a_round_that_does_not_run_breaks_an_invariant() -> None:
    states = in_state(State.IN_ROUND)
    assert "idle" in states.broken_invariant()
    states.begin()
    assert states.broken_invariant() == ""


# -- whatever happens -----------------------------------------------------------------------------------------------------

PARTITIONS = "abcd"


class Model:
    """A list of debts, the oldest first, and how far each log is written, in the round and durable. No table."""

    def __init__(self) -> None:
        self.debts: list[tuple[str, str]] = []
        self.written = dict.fromkeys(PARTITIONS, 0)
        self.durable = dict.fromkeys(PARTITIONS, 0)
        self.syncing: dict[str, int] = {}

    def owe(self, kind: str, partition: str) -> None:
        if (kind, partition) not in self.debts:
            self.debts.append((kind, partition))

    def pay(self, partition: str, *kinds: str) -> None:
        self.debts = [(kind, other) for kind, other in self.debts if other != partition or kind not in kinds]

    def all(self, kind: str) -> list[str]:
        return [partition for found, partition in self.debts if found == kind]

    def turn(self, before: str, after: str, partitions: list[str]) -> None:
        for partition in partitions:
            self.pay(partition, before)
            self.owe(after, partition)


class Both:
    """The states and the model, told of the same."""

    def __init__(self) -> None:
        self.states: SyncStates[str] = SyncStates()
        self.model = Model()

    def append(self, partition: str) -> None:
        self.model.written[partition] += 1
        self.states.appended(partition)
        self.model.owe("dirty", partition)

    def append_unhurried(self, partition: str) -> None:
        self.model.written[partition] += 1
        self.states.appended_unhurried(partition, NOW)
        self.model.owe("unhurried", partition)

    def request(self, partition: str) -> None:
        self.states.request(partition)
        self.model.owe("requested", partition)

    def forget(self, partition: str) -> None:
        """It leaves, and comes back later as another one: with a log that is durable."""
        self.states.forget(partition)
        self.model.debts = [debt for debt in self.model.debts if debt[1] != partition]
        self.model.syncing.pop(partition, None)
        self.model.durable[partition] = self.model.written[partition]

    def flush(self, partition: str) -> None:
        self.states.flush(lambda waiting, since: waiting == partition)
        if partition in self.model.all("unhurried"):
            self.model.turn("unhurried", "dirty", [partition])

    def scarce(self, _: str) -> None:
        self.states.files_became_scarce()
        for kind in ("awaiting a resume point", "unhurried"):
            self.model.turn(kind, "dirty", self.model.all(kind))

    def retry_left_out(self, _: str) -> None:
        self.states.request_left_out()
        for partition in self.model.all("left out"):
            self.model.owe("requested", partition)

    def room(self, _: str) -> None:
        self.states.request_unwritten()
        for partition in self.model.all("unwritten")[: sync_states.REQUESTED_PER_ROUND]:
            self.model.owe("requested", partition)

    def look(self, faulty: str) -> None:
        """A round begins. One log is at fault, and the next of the alphabet lacks a descriptor."""
        if not self.states.may_begin():
            return
        model = self.model
        model.turn("requested", "dirty", model.all("requested")[: sync_states.REQUESTED_PER_ROUND])
        looked_at = self.states.to_look_at()
        assert looked_at == model.all("dirty")
        taken = []
        for partition in looked_at:
            model.pay(partition, "unhurried", "requested", "awaiting a resume point", "unwritten")
            if partition == faulty:
                self.states.happened(partition, Fact.FAULTY)
                model.pay(partition, "dirty")
                model.owe("left out", partition)
            elif ord(partition) == ord(faulty) + 1:
                self.states.happened(partition, Fact.POSTPONED)
            elif model.written[partition] == model.durable[partition]:
                self.states.happened(partition, Fact.SETTLED)
                model.pay(partition, "dirty", "left out")
            else:
                self.states.take(partition)
                model.pay(partition, "dirty", "left out")
                taken.append(partition)
        if taken:
            self.states.begin()
            model.syncing = {partition: model.written[partition] for partition in taken}

    def end(self, indexes: str) -> None:
        if self.states.under_way:
            self.states.end()
            assert list(self.states.in_round) == list(self.model.syncing)
            self.states.synced([partition for partition in self.states.in_round if partition == indexes])
            self.model.durable |= self.model.syncing
            if indexes in self.model.syncing:
                self.model.owe("awaiting a resume point", indexes)
            self.model.syncing = {}

    def end_without_room(self, unwritten: str) -> None:
        if self.states.under_way:
            held = unwritten in self.states.in_round
            self.end("")
            self.states.found_no_room([unwritten] if held else [])
            if held:
                self.model.owe("unwritten", unwritten)

    def interrupt(self, _: str) -> None:
        if self.states.under_way:
            self.states.end()
            self.states.interrupted(NOW)
            for partition in self.model.syncing:
                self.model.owe("dirty", partition)
            self.model.syncing = {}

    def agree(self) -> None:
        for state, partitions in self.states.held().items():
            expected = list(self.model.syncing) if state is State.IN_ROUND else self.model.all(state.value)
            assert list(partitions) == expected, state
        for partition in PARTITIONS:
            if self.model.written[partition] > self.model.durable[partition]:
                assert self.states.owes_sync(partition)
        assert self.states.under_way == bool(self.states.in_round) or not self.model.syncing
        assert self.states.broken_invariant() == ""


STEPS: tuple[Callable[[Both, str], None], ...] = (
    *(Both.append, Both.append_unhurried, Both.request, Both.forget, Both.flush, Both.scarce),
    *(Both.retry_left_out, Both.room, Both.look, Both.end, Both.end_without_room, Both.interrupt),
)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(PARTITIONS)), max_size=40))
def test_whatever_happens_everything_written_is_owed_until_it_is_durable(
    history: list[tuple[Callable[[Both, str], None], str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync_states, "REQUESTED_PER_ROUND", 2)
        both = Both()
        for step, partition in history:
            step(both, partition)
            both.agree()
        while any(both.states.owes_sync(partition) for partition in PARTITIONS):
            for step in (Both.retry_left_out, Both.scarce, Both.look, Both.end):
                step(both, "z")  # nothing is at fault any more
                both.agree()
        assert both.model.durable == both.model.written
