"""The phases of a client connection, as a transition table. No I/O.

A connection does three things: it reads requests, begins them, and sends their answers. Each may stop without the others, and the
phase says which of them go on (`PERMITS`). Which of the requests that were read begins next is for `core/session.py` to say.

*Reading.* Input is read until something holds it: the client's own requests and answers (flow control), or the budget that all
clients share, or a quota that mutes the client. Holds add up, each is ended by the one who put it on, and only the first and the
last are facts for the phase.

*Beginning.* Whatever was read begins, in every open phase. A client that must authenticate first has two phases before the
others, in which only the requests of that exchange begin (`requests/authentication.py`). It is held there as anywhere. Asked to
leave or to drain, it ends at once: nothing that it could miss has begun.

*Leaving.* A gateway that wants its client to go elsewhere closes between two requests. Bytes in the kernel's buffer are requests
too: a close would lose them, and even answers that the client has not read yet. So the connection looks there first (`LOOK`: one
turn of the event loop in which nothing arrives). It cannot look while its input is held, and looks again after each hold: what
piled up meanwhile is read before it ends. Draining is the same without patience: nothing more is read.

*Ending.* A reason ends a connection in one of three ways (`REASONS`). As a rule, answers that wait in the stream are still sent.
A client that does not read them loses them. When the stream is lost, nobody is there to send to. The first reason is logged and
counted. After it nothing changes, except that unread answers may still be dropped.

A cell gives the next phase and the effects, in their order. Each fact that can occur in a phase has a cell. Any other is a fault
of the caller: an AssertionError.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from libs.lean_dataclass import dataclass


class Phase(Enum):
    AUTHENTICATING = "authenticating"
    """Its client must authenticate first."""
    AUTHENTICATING_PAUSED = "authenticating, paused"
    """Its client must authenticate first, and its input is held."""
    SERVING = "serving"
    PAUSED = "paused"
    """Its input is held."""
    CATCHING_UP = "catching up"
    """It was asked to leave, and looks for requests in the kernel's buffer."""
    LEAVING = "leaving"
    """It has found none there, and ends as soon as no request is outstanding. Until then requests are read as usual."""
    BEHIND = "behind"
    """It was asked to leave, and its input is held."""
    DRAINING = "draining"
    """It reads no further request, and ends once the outstanding ones are answered."""
    CLOSING = "closing"
    """It has ended. Its stream still sends the answers that wait there."""
    GONE = "gone"
    """It has ended, and so has its stream."""


CONGESTED: Final = 1
"""A hold on the input: many requests are outstanding, or many bytes of answers are unread. It ends as requests are answered and
answers are read. A client that reads none is closed as `unread`."""
NO_ROOM: Final = 2
"""A hold on the input: the budget for requests has no room. It ends as requests of all clients are answered. A wait that is too
long is closed as `no-room`."""

MUTED: Final = 4
"""A hold on the input: the client is over a quota. A timer ends it, or a change of quotas. No timeout of the client's runs
meanwhile, and it waits for no room. What it has sent of a frame takes its part of the budget."""


class Fact(Enum):
    HELD = "the first hold begins"
    FREED = "the last hold ends"
    AUTHENTICATED = "its client has authenticated"
    LEAVE = "asked to leave"
    MORE_CAME = "something arrived during the look"
    NOTHING_CAME = "nothing arrived during the look"
    DRAIN = "asked to drain"
    IDLE = "no request is outstanding"
    HALF_IDLE = "no request is outstanding, and half a frame is there"
    ENDED = "a timeout, or the client's or our fault"
    UNREAD = "the client does not read its answers"
    LOST = "the stream is lost"


class Effect(Enum):
    STOP_READING = "stop reading"
    READ_ON = "read on"
    LOOK = "look into the kernel's buffer, and forget an earlier look"
    RELEASE = "hang up on requests, and give back what they hold"
    CLOSE = "close the stream once its answers are sent"
    ABORT = "close the stream at once"


@dataclass(frozen=True, slots=True)
class Permits:
    """What a phase allows."""

    reads: bool
    begins: bool
    """Requests begin, and their answers go to the stream."""
    sends: bool
    """What is in the stream is sent."""
    ends_when_idle: bool = False


PERMITS: Final[Mapping[Phase, Permits]] = {
    Phase.AUTHENTICATING: Permits(reads=True, begins=True, sends=True),
    Phase.AUTHENTICATING_PAUSED: Permits(reads=False, begins=True, sends=True),
    Phase.SERVING: Permits(reads=True, begins=True, sends=True),
    Phase.PAUSED: Permits(reads=False, begins=True, sends=True),
    Phase.CATCHING_UP: Permits(reads=True, begins=True, sends=True),
    Phase.LEAVING: Permits(reads=True, begins=True, sends=True, ends_when_idle=True),
    Phase.BEHIND: Permits(reads=False, begins=True, sends=True),
    Phase.DRAINING: Permits(reads=False, begins=True, sends=True, ends_when_idle=True),
    Phase.CLOSING: Permits(reads=False, begins=False, sends=True),
    Phase.GONE: Permits(reads=False, begins=False, sends=False),
}

Effects = tuple[Effect, ...]
_Row = dict[Fact, tuple[Phase, Effects]]

_CLOSED: Final = (Phase.CLOSING, (Effect.RELEASE, Effect.CLOSE))
_ENDS: Final[_Row] = {
    Fact.ENDED: _CLOSED,
    Fact.UNREAD: (Phase.GONE, (Effect.RELEASE, Effect.ABORT)),
    Fact.LOST: (Phase.GONE, (Effect.RELEASE,)),
}

TRANSITIONS: Final[Mapping[Phase, _Row]] = {
    Phase.AUTHENTICATING: {
        Fact.HELD: (Phase.AUTHENTICATING_PAUSED, (Effect.STOP_READING,)),
        Fact.AUTHENTICATED: (Phase.SERVING, ()),
        Fact.LEAVE: _CLOSED,
        Fact.DRAIN: _CLOSED,
        **_ENDS,
    },
    Phase.AUTHENTICATING_PAUSED: {
        Fact.FREED: (Phase.AUTHENTICATING, (Effect.READ_ON,)),
        Fact.AUTHENTICATED: (Phase.PAUSED, ()),
        Fact.LEAVE: _CLOSED,
        Fact.DRAIN: _CLOSED,
        **_ENDS,
    },
    Phase.SERVING: {
        Fact.HELD: (Phase.PAUSED, (Effect.STOP_READING,)),
        Fact.LEAVE: (Phase.CATCHING_UP, (Effect.LOOK,)),
        Fact.DRAIN: (Phase.DRAINING, (Effect.STOP_READING,)),
        **_ENDS,
    },
    Phase.PAUSED: {
        Fact.FREED: (Phase.SERVING, (Effect.READ_ON,)),
        Fact.LEAVE: (Phase.BEHIND, ()),
        Fact.DRAIN: (Phase.DRAINING, ()),
        **_ENDS,
    },
    Phase.CATCHING_UP: {
        Fact.HELD: (Phase.BEHIND, (Effect.STOP_READING,)),
        Fact.LEAVE: (Phase.CATCHING_UP, ()),
        Fact.MORE_CAME: (Phase.CATCHING_UP, (Effect.LOOK,)),
        Fact.NOTHING_CAME: (Phase.LEAVING, ()),
        Fact.DRAIN: (Phase.DRAINING, (Effect.STOP_READING,)),
        **_ENDS,
    },
    Phase.LEAVING: {
        Fact.HELD: (Phase.BEHIND, (Effect.STOP_READING,)),
        Fact.LEAVE: (Phase.LEAVING, ()),
        Fact.DRAIN: (Phase.DRAINING, (Effect.STOP_READING,)),
        Fact.IDLE: _CLOSED,
        Fact.HALF_IDLE: (Phase.LEAVING, ()),  # the rest of that request is on its way
        **_ENDS,
    },
    Phase.BEHIND: {
        Fact.FREED: (Phase.CATCHING_UP, (Effect.READ_ON, Effect.LOOK)),
        Fact.LEAVE: (Phase.BEHIND, ()),
        Fact.MORE_CAME: (Phase.BEHIND, ()),  # a look that began before the hold
        Fact.NOTHING_CAME: (Phase.BEHIND, ()),
        Fact.DRAIN: (Phase.DRAINING, ()),
        **_ENDS,
    },
    Phase.DRAINING: {
        Fact.HELD: (Phase.DRAINING, ()),
        Fact.FREED: (Phase.DRAINING, ()),
        Fact.LEAVE: (Phase.DRAINING, ()),
        Fact.MORE_CAME: (Phase.DRAINING, ()),
        Fact.NOTHING_CAME: (Phase.DRAINING, ()),
        Fact.DRAIN: (Phase.DRAINING, ()),
        Fact.IDLE: _CLOSED,
        Fact.HALF_IDLE: _CLOSED,  # nobody would read the rest
        **_ENDS,
    },
    Phase.CLOSING: {
        **dict.fromkeys(Fact, (Phase.CLOSING, ())),
        Fact.UNREAD: (Phase.GONE, (Effect.ABORT,)),
        Fact.LOST: (Phase.GONE, ()),
    },
    Phase.GONE: dict.fromkeys(Fact, (Phase.GONE, ())),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """What a reason to end a connection is for the table, and whether the log tells of it."""

    fact: Fact
    is_logged: bool = True


DRAINED: Final = "drain"

REASONS: Final[Mapping[str, Reason]] = {
    DRAINED: Reason(Fact.ENDED, is_logged=False),
    "idle": Reason(Fact.ENDED, is_logged=False),
    "frame": Reason(Fact.ENDED),
    "malformed": Reason(Fact.ENDED),
    "api": Reason(Fact.ENDED),
    "version": Reason(Fact.ENDED),
    "acks-0": Reason(Fact.ENDED),
    "unauthenticated": Reason(Fact.ENDED),
    "authentication": Reason(Fact.ENDED),
    "expired": Reason(Fact.ENDED, is_logged=False),
    "internal": Reason(Fact.ENDED),
    "half-frame": Reason(Fact.ENDED),
    "no-room": Reason(Fact.ENDED),
    "queued-requests": Reason(Fact.ENDED),
    "unread": Reason(Fact.UNREAD),
    "unread-answers": Reason(Fact.UNREAD),
    "client": Reason(Fact.LOST, is_logged=False),
    "reset": Reason(Fact.LOST, is_logged=False),
    "tls": Reason(Fact.LOST),
}
"""All reasons for which a connection ends, by the label of `penstock_gateway_connections_closed_total`."""


class ConnectionPhase:
    """The phase of one connection, and the holds on its input. Calls return effects, to be carried out in their order."""

    __slots__ = ("ended", "ends_when_idle", "held", "phase")

    def __init__(self, *, authenticates: bool = False) -> None:
        """`authenticates`: its client must do so before it is served."""
        self.phase = Phase.AUTHENTICATING if authenticates else Phase.SERVING
        self.held = 0
        """The holds, by their bits."""
        self.ended = False
        """Nothing begins any more, and no answer goes to the stream."""
        self.ends_when_idle = False
        """`IDLE` or `HALF_IDLE` must be told."""

    def turn(self, fact: Fact) -> Effects:
        cell = TRANSITIONS[self.phase].get(fact)
        assert cell is not None, f"{self.phase.value}: {fact.value}"
        self.phase, effects = cell
        permits = PERMITS[self.phase]
        self.ended, self.ends_when_idle = not permits.begins, permits.ends_when_idle
        assert self.held == 0 or not permits.reads, f"{self.phase.value}: read in spite of a hold"
        return effects

    def hold(self, hold: int) -> Effects:
        """Holds the input, by CONGESTED, NO_ROOM or MUTED."""
        before, self.held = self.held, self.held | hold
        return self.turn(Fact.HELD) if not before else ()

    def free(self, hold: int) -> Effects:
        """Takes one hold away."""
        before, self.held = self.held, self.held & ~hold
        return self.turn(Fact.FREED) if before and not self.held else ()

    @property
    def is_paused(self) -> bool:
        """Whether the client must read its answers before it is read. Its timeout for unread answers runs."""
        return self.held & CONGESTED != 0 or self.phase is Phase.DRAINING

    @property
    def is_authenticating(self) -> bool:
        return self.phase in (Phase.AUTHENTICATING, Phase.AUTHENTICATING_PAUSED)

    @property
    def is_leaving(self) -> bool:
        """Whether it ends as soon as it can."""
        return self.phase in (Phase.CATCHING_UP, Phase.LEAVING, Phase.BEHIND, Phase.DRAINING)


@dataclass(frozen=True, slots=True)
class Moment:
    """The parts of a connection between two turns of the event loop."""

    stream_ended: bool = False
    reads: bool = True
    """Its stream is read."""
    unsent: int = 0
    """Bytes of answers in its stream."""
    running: bool = False
    """A request has begun, and its answer is not in the stream."""
    waiting: bool = False
    """A request has not begun."""
    half_frame: int = 0
    """Bytes of an incomplete frame."""
    room: int = 0
    """Bytes of the budget for requests that the incomplete frame holds."""
    waits_for_room: bool = False
    """The budget will admit it."""
    looks: bool = False
    """A look into the kernel's buffer is under way."""
    mute_ends: bool = False
    """A timer will end the mute."""


def broken_invariant(state: ConnectionPhase, now: Moment) -> str:
    """The first invariant that does not hold between two turns; "" if all do. Most say that whoever waits will be woken."""
    phase, held = state.phase, state.held
    if state.ended:
        invariants = {
            "an ended connection ends its stream": now.stream_ended,
            "an ended connection holds nothing": not (now.running or now.waiting or now.room or now.waits_for_room),
        }
    elif now.stream_ended:
        return ""  # the stream will tell
    else:
        outstanding = now.running or now.waiting
        invariants = {
            "its stream is read exactly if the phase says so": now.reads is PERMITS[phase].reads,
            "a paused input is held": held != 0 or phase not in (Phase.PAUSED, Phase.BEHIND, Phase.AUTHENTICATING_PAUSED),
            "the budget admits what it holds back": now.waits_for_room is (held & NO_ROOM != 0),
            "an answer ends congestion": not held & CONGESTED or outstanding or now.unsent > 0,
            "a timer ends a mute": now.mute_ends is (held & MUTED != 0),
            "a muted connection waits for no room": not held & MUTED or not now.waits_for_room,
            "a request waits for another one, for answers to be read, or for a mute to end": not now.waiting
            or now.running
            or now.unsent > 0
            or held & MUTED != 0,
            "it looks while it catches up": now.looks or phase is not Phase.CATCHING_UP,
            "it leaves once it is idle": outstanding or now.half_frame > 0 or phase is not Phase.LEAVING,
            "it drains until it is idle": outstanding or phase is not Phase.DRAINING,
        }
    return next((invariant for invariant, holds in invariants.items() if not holds), "")
