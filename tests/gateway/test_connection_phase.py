"""The phases of a client connection: stories, each cell of the table, and a model with a flag for each thing that happened."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.connection_phase import (
    CONGESTED,
    MUTED,
    NO_ROOM,
    PERMITS,
    REASONS,
    TRANSITIONS,
    ConnectionPhase,
    Effect,
    Effects,
    Fact,
    Moment,
    Phase,
    broken_invariant,
)
from tests.support.stories import Command, check_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
HOLDS = {"congestion": CONGESTED, "room": NO_ROOM, "quota": MUTED}
LOOKS = {"yes": Fact.MORE_CAME, "no": Fact.NOTHING_CAME}
GATEWAY = Path(__file__).parents[2] / "services" / "gateway"
CLOSES = re.compile(r"""\b(?:close|_turn)\(\s*"([\w-]+)\"""")
ENDS = (Fact.ENDED, Fact.UNREAD, Fact.LOST)

# --- stories --------------------------------------------------------------------------------------------------------------


class Stage:
    """Plays commands on the phase of one connection."""

    def __init__(self) -> None:
        self.state = ConnectionPhase()

    def run(self, commands: Sequence[Command]) -> list[str]:
        lines: list[str] = []
        for command in commands:
            lines += [f"effect: {effect.value}" for effect in getattr(self, f"_{command.verb}")(command)]
        return [*lines, self._shown()]

    def _shown(self) -> str:
        permits = PERMITS[self.state.phase]
        may = [
            act for act, allowed in (("reads", permits.reads), ("begins", permits.begins), ("sends", permits.sends)) if allowed
        ]
        held = [name for name, hold in HOLDS.items() if self.state.held & hold]
        held_by = f" (held by {', '.join(held)})" if held else ""
        return f"{self.state.phase.value}: {', '.join(may) or 'nothing'}{held_by}"

    def _new(self, command: Command) -> Effects:
        self.state = ConnectionPhase(authenticates=bool(command.arguments))
        return ()

    def _authenticate(self, command: Command) -> Effects:
        return self.state.turn(Fact.AUTHENTICATED)

    def _hold(self, command: Command) -> Effects:
        return self.state.hold(HOLDS[command.arguments["by"]])

    def _free(self, command: Command) -> Effects:
        return self.state.free(HOLDS[command.arguments["by"]])

    def _leave(self, command: Command) -> Effects:
        return self.state.turn(Fact.LEAVE)

    def _look(self, command: Command) -> Effects:
        return self.state.turn(LOOKS[command.arguments["came"]])

    def _drain(self, command: Command) -> Effects:
        return self.state.turn(Fact.DRAIN)

    def _idle(self, command: Command) -> Effects:
        return self.state.turn(Fact.HALF_IDLE if command.arguments else Fact.IDLE)

    def _close(self, command: Command) -> Effects:
        return self.state.turn(REASONS[command.arguments["reason"]].fact)

    _lose = _close


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    check_story(path, Stage().run)


# --- the table ------------------------------------------------------------------------------------------------------------


def ways() -> dict[Phase, list[Fact]]:
    """The facts that bring a new connection, whose client must authenticate, into each phase: the shortest way there."""
    found: dict[Phase, list[Fact]] = {Phase.AUTHENTICATING: []}
    reached = [Phase.AUTHENTICATING]
    for phase in reached:
        for fact, (after, _) in TRANSITIONS[phase].items():
            if after not in found:
                found[after] = [*found[phase], fact]
                reached.append(after)
    return found


def tell(state: ConnectionPhase, fact: Fact) -> Effects:
    if fact is Fact.HELD:
        return state.hold(CONGESTED)
    return state.free(CONGESTED) if fact is Fact.FREED else state.turn(fact)


def can_occur(phase: Phase, fact: Fact) -> bool:
    if phase in (Phase.CLOSING, Phase.GONE):
        return True
    match fact:
        case Fact.HELD:
            return phase not in (Phase.PAUSED, Phase.BEHIND, Phase.AUTHENTICATING_PAUSED)
        case Fact.AUTHENTICATED:
            return phase in (Phase.AUTHENTICATING, Phase.AUTHENTICATING_PAUSED)
        case Fact.FREED:
            return not PERMITS[phase].reads
        case Fact.MORE_CAME | Fact.NOTHING_CAME:
            return phase in (Phase.CATCHING_UP, Phase.BEHIND, Phase.DRAINING)
        case Fact.IDLE | Fact.HALF_IDLE:
            return PERMITS[phase].ends_when_idle
        case _:
            return True


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
@pytest.mark.parametrize("fact", Fact, ids=lambda fact: fact.value)
def test_each_cell(phase: Phase, fact: Fact) -> None:
    state = ConnectionPhase(authenticates=True)
    for earlier in ways()[phase]:
        tell(state, earlier)
    assert state.phase is phase
    if not can_occur(phase, fact):
        with pytest.raises(AssertionError):
            state.turn(fact)
        assert state.phase is phase
        return
    if fact is Fact.FREED:
        state.held = CONGESTED
    was_leaving = state.is_leaving
    effects = tell(state, fact)
    before, after = PERMITS[phase], PERMITS[state.phase]
    assert (state.ended, state.ends_when_idle) == (not after.begins, after.ends_when_idle)
    assert (Effect.READ_ON in effects) is (after.reads and not before.reads)
    assert (Effect.STOP_READING in effects) is (before.reads and not after.reads and after.begins), (
        "a stream that ends stops alone"
    )
    assert (Effect.RELEASE in effects) is (before.begins and not after.begins)
    assert (Effect.CLOSE in effects) is (before.begins and state.phase is Phase.CLOSING)
    assert (Effect.ABORT in effects) is (before.sends and fact is Fact.UNREAD)
    looks_anew = phase is not Phase.CATCHING_UP or fact is Fact.MORE_CAME
    assert (Effect.LOOK in effects) is (state.phase is Phase.CATCHING_UP and looks_anew)
    assert not (before.begins and fact in ENDS and after.begins), "each reason ends it"
    assert before.begins or not after.begins, "nothing that ended comes back"
    assert after.sends is (before.sends and fact not in (Fact.UNREAD, Fact.LOST))
    drains = phase is Phase.DRAINING or fact is Fact.DRAIN
    assert (state.phase is Phase.DRAINING) is (after.begins and drains), "whoever drains, drains until its end"
    assert state.is_leaving or not was_leaving or not after.begins, "whoever leaves, leaves"


def test_every_reason_in_the_gateway_is_in_the_table() -> None:
    given = {match for path in GATEWAY.rglob("*.py") for match in CLOSES.findall(path.read_text(encoding="utf-8"))}
    assert {"malformed", "internal", "acks-0"} <= given <= REASONS.keys()
    assert {reason.fact for reason in REASONS.values()} == set(ENDS)


# --- a model --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Model:
    """A flag for each thing that happened, and no phase."""

    congested: bool = False
    no_room: bool = False
    muted: bool = False
    leaves: bool = False
    looked: bool = False
    """All that lay in the kernel's buffer is read, since it was asked to leave and since it was held last."""
    drains: bool = False
    ended: bool = False
    sends: bool = True

    @property
    def reads(self) -> bool:
        return not (self.congested or self.no_room or self.muted or self.drains or self.ended)

    @property
    def ends_when_idle(self) -> bool:
        return not self.ended and (self.drains or (self.leaves and self.looked and self.reads))


class Subject:
    """The phase, and a stream that does what it says."""

    def __init__(self) -> None:
        self.state = ConnectionPhase()
        self.reads = self.sends = True
        self.looks = False
        self.releases = 0

    def carry_out(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Effect.STOP_READING:
                    self.reads = False
                case Effect.READ_ON:
                    self.reads = True
                case Effect.LOOK:
                    self.looks = True
                case Effect.RELEASE:
                    self.releases += 1
                    self.reads = False
                case Effect.CLOSE:
                    assert self.sends
                case Effect.ABORT:
                    self.sends = False


def act(model: Model, subject: Subject, what: str, flag: bool) -> None:
    state = subject.state
    read_before = model.reads
    match what:
        case "congestion":
            model.congested = flag and not model.ended
            subject.carry_out(state.hold(CONGESTED) if model.congested else state.free(CONGESTED))
        case "room":
            model.no_room = flag and not model.ended and not model.muted
            subject.carry_out(state.hold(NO_ROOM) if model.no_room else state.free(NO_ROOM))
        case "quota":
            model.muted = flag and not model.ended
            subject.carry_out(state.hold(MUTED) if model.muted else state.free(MUTED))
            if model.muted:  # it withdraws from the budget
                model.no_room = False
                subject.carry_out(state.free(NO_ROOM))
        case "leave":
            model.leaves = True
            subject.carry_out(state.turn(Fact.LEAVE))
        case "drain":
            model.drains = True
            subject.carry_out(state.turn(Fact.DRAIN))
        case "look" if subject.looks:
            subject.looks = False
            model.looked = model.looked or (model.leaves and model.reads and not flag)
            subject.carry_out(state.turn(Fact.MORE_CAME if flag else Fact.NOTHING_CAME))
        case "idle" if state.ends_when_idle:
            model.ended = model.drains or not flag
            subject.carry_out(state.turn(Fact.HALF_IDLE if flag else Fact.IDLE))
        case "ended":
            model.ended = True
            subject.carry_out(state.turn(Fact.ENDED))
        case "unread" | "lost":
            model.ended, model.sends = True, False
            subject.carry_out(state.turn(Fact.UNREAD if what == "unread" else Fact.LOST))
            subject.sends = False
    if read_before and not model.reads:
        model.looked = False


ACTS = ("congestion", "room", "quota", "leave", "look", "drain", "idle", "ended", "unread", "lost")
OFTEN = ACTS[:5]


@given(st.lists(st.tuples(st.sampled_from([*OFTEN, *OFTEN, *ACTS]), st.booleans()), max_size=40))
def test_a_phase_says_what_the_flags_say(acts: list[tuple[str, bool]]) -> None:
    model, subject = Model(), Subject()
    for what, flag in acts:
        act(model, subject, what, flag)
        state = subject.state
        permits = PERMITS[state.phase]
        assert (permits.reads, permits.begins, permits.sends) == (model.reads, not model.ended, model.sends)
        assert (subject.reads, subject.sends, subject.releases) == (model.reads, model.sends, model.ended)
        assert state.ends_when_idle is model.ends_when_idle
        assert state.ended or state.is_leaving is (model.leaves or model.drains)
        assert state.ended or state.is_paused is (model.congested or model.drains)
        now = Moment(
            stream_ended=state.ended,
            reads=subject.reads,
            running=not state.ended,
            waits_for_room=model.no_room and not state.ended,
            looks=subject.looks,
            mute_ends=model.muted and not state.ended,
        )
        assert broken_invariant(state, now) == ""


@pytest.mark.parametrize(
    ("facts", "now", "broken"),
    [
        ([], Moment(reads=False), "its stream is read exactly"),
        ([Fact.HELD], Moment(running=True), "its stream is read exactly"),
        ([], Moment(waits_for_room=True), "the budget admits"),
        ([], Moment(waiting=True), "a request waits for another one, for answers to be read, or for a mute to end"),
        ([Fact.HELD], Moment(reads=False), "an answer ends congestion"),
        ([Fact.LEAVE], Moment(), "it looks"),
        ([Fact.LEAVE, Fact.NOTHING_CAME], Moment(unsent=9), "it leaves"),
        ([Fact.DRAIN], Moment(reads=False, half_frame=3), "it drains"),
        ([Fact.ENDED], Moment(), "an ended connection ends its stream"),
        ([Fact.ENDED], Moment(stream_ended=True, room=1), "an ended connection holds nothing"),
        ([Fact.LOST], Moment(stream_ended=True, waits_for_room=True), "an ended connection holds nothing"),
        ([], Moment(stream_ended=True, reads=False), ""),
        ([Fact.LEAVE, Fact.NOTHING_CAME], Moment(half_frame=1), ""),
        ([Fact.HELD], Moment(reads=False, unsent=1), ""),
    ],
)
def test_an_invariant_that_is_broken_is_named(facts: list[Fact], now: Moment, broken: str) -> None:
    state = ConnectionPhase()
    for fact in facts:
        tell(state, fact)
    found = broken_invariant(state, now)
    assert found.startswith(broken)
    assert bool(found) is bool(broken)
