"""Liveness of members, as a transition table. Every controller keeps its own table, elected or not.

A process that ended shows by its connection: it is reset, and a probe of the process's address is refused. A process that is
stopped or cut off shows by its silence. Death alone takes nothing from a member. The active controller deletes the dead member's
key, under a guard, and a member that lives after all registers again.

Rule: if half of the storage nodes fall silent together, this controller is the one that is cut off. docs/replication.md draws the
table.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from libs.cluster.records import CONTROLLER, STORAGE
from libs.lean_dataclass import dataclass

HEARTBEAT_MS: Final = 300
TOGETHER_MS: Final = 2 * HEARTBEAT_MS
"""Members whose silence began within this time fell silent together."""
UNHEARD_MS: Final = 1_000
"""A member from which this controller never got a heartbeat is probed after so long. If it does not refuse, its lease decides."""
PAUSE_MS: Final = 500
"""Ticks that are this late were delayed in this process, and so were the heartbeats."""
PROBE_AGAIN_MS: Final = (20, 40, 80, 160, 320)
"""Waits between probes. A process that is ending may accept for a moment; a live one soon sends a heartbeat."""


class State(Enum):
    ALIVE = "alive"
    SUSPECTED = "suspected"
    PROBING = "probing"
    DEAD = "dead"


class Event(Enum):
    HEARTBEAT = "heartbeat"
    CONNECTION_LOST = "connection lost"
    UNHEARD = "never heard of"
    PROBE_SENT = "probe sent"
    NOT_REFUSED = "not refused"
    REFUSED = "refused"
    SILENCE = "silence"


TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.ALIVE: {
        Event.HEARTBEAT: State.ALIVE,
        Event.CONNECTION_LOST: State.SUSPECTED,
        Event.UNHEARD: State.SUSPECTED,
        Event.SILENCE: State.DEAD,
    },
    State.SUSPECTED: {
        Event.HEARTBEAT: State.ALIVE,
        Event.PROBE_SENT: State.PROBING,
        Event.SILENCE: State.DEAD,
    },
    State.PROBING: {
        Event.HEARTBEAT: State.ALIVE,
        Event.NOT_REFUSED: State.SUSPECTED,
        Event.REFUSED: State.DEAD,
        Event.SILENCE: State.DEAD,
    },
    State.DEAD: {Event.HEARTBEAT: State.ALIVE},
}
"""A missing event changes nothing: it came too late."""


class Process(NamedTuple):
    role: str
    node_id: int
    incarnation: int


@dataclass(slots=True)
class _Watched:
    heard_ms: int
    heard: bool = False
    state: State = State.ALIVE
    probes: int = 0
    probe_ms: int = 0


class Liveness:
    """The liveness of all watched members. Times are of one monotonic clock. Facts about other processes are ignored: they
    concern a former incarnation, or come too early."""

    def __init__(self, silence_ms: int) -> None:
        """`silence_ms` is how long a member that was heard may be silent until it counts as dead."""
        self._silence_ms = silence_ms
        self._watched: dict[Process, _Watched] = {}
        self._ticked_ms: int | None = None
        self.cut_off = False
        """Whether this controller hears so few storage nodes that silence proves nothing."""

    def watch(self, registered: Iterable[Process], now_ms: int) -> None:
        """Watches exactly these processes from now on."""
        self._watched = {process: self._watched.get(process) or _Watched(now_ms) for process in registered}

    def state(self, process: Process) -> State | None:
        watched = self._watched.get(process)
        return watched.state if watched is not None else None

    def heard(self) -> list[Process]:
        """Members that have sent this controller a heartbeat."""
        return [process for process, watched in self._watched.items() if watched.heard]

    def dead(self) -> list[Process]:
        return [process for process, watched in self._watched.items() if watched.state is State.DEAD]

    def heartbeat(self, process: Process, now_ms: int) -> bool:
        """Whether it changed the state of that process."""
        watched = self._watched.get(process)
        if watched is None:
            return False
        watched.heard, watched.heard_ms, watched.probes = True, now_ms, 0
        return watched.state is not State.ALIVE and _apply(watched, Event.HEARTBEAT)

    def connection_lost(self, process: Process, now_ms: int) -> None:
        watched = self._watched.get(process)
        if watched is not None and _apply(watched, Event.CONNECTION_LOST):
            watched.probe_ms = now_ms

    def due_probes(self, now_ms: int) -> list[Process]:
        """The processes to probe now. Report each result to `probed`."""
        due = [process for process, w in self._watched.items() if w.state is State.SUSPECTED and w.probe_ms <= now_ms]
        for process in due:
            _apply(self._watched[process], Event.PROBE_SENT)
        return due

    def next_probe_ms(self) -> int | None:
        return min((w.probe_ms for w in self._watched.values() if w.state is State.SUSPECTED), default=None)

    def probed(self, process: Process, now_ms: int, *, refused: bool) -> None:
        watched = self._watched.get(process)
        if watched is None or not _apply(watched, Event.REFUSED if refused else Event.NOT_REFUSED):
            return
        watched.probe_ms = now_ms + PROBE_AGAIN_MS[min(watched.probes, len(PROBE_AGAIN_MS) - 1)]
        watched.probes += 1

    def tick(self, now_ms: int, since_last_ms: int) -> None:
        """Declares silent members dead. Call it every `since_last_ms`."""
        self._forgive_own_pause(now_ms, since_last_ms)
        silent = self._quiet(now_ms, self._silence_ms)
        quiet = self._quiet(now_ms, self._silence_ms - TOGETHER_MS)
        together = sum(process.role == STORAGE for process in quiet)
        storage = sum(process.role == STORAGE for process in self._watched)
        in_doubt = together >= 2 and 2 * together >= storage
        self.cut_off = in_doubt and any(process.role == STORAGE for process in silent)
        for watched in self._watched.values():
            if not watched.heard and watched.state is State.ALIVE and now_ms - watched.heard_ms >= UNHEARD_MS:
                _apply(watched, Event.UNHEARD)
                watched.probe_ms = now_ms
        # A silent controller is not declared dead: the election's lease decides about the active one. While this controller may
        # be cut off itself, nobody is declared dead, or shards would move for nothing.
        for process in () if in_doubt else silent:
            if process.role != CONTROLLER:
                _apply(self._watched[process], Event.SILENCE)

    def _forgive_own_pause(self, now_ms: int, since_last_ms: int) -> None:
        late_ms = now_ms - self._ticked_ms - since_last_ms if self._ticked_ms is not None else 0
        self._ticked_ms = now_ms
        if late_ms >= PAUSE_MS:
            for watched in self._watched.values():
                watched.heard_ms = min(now_ms, watched.heard_ms + late_ms)

    def _quiet(self, now_ms: int, for_ms: int) -> list[Process]:
        """Members that were heard once, are not dead, and have been quiet for so long."""
        return [
            process
            for process, watched in self._watched.items()
            if watched.heard and watched.state is not State.DEAD and now_ms - watched.heard_ms >= for_ms
        ]


def _apply(watched: _Watched, event: Event) -> bool:
    """Applies `event`, and says whether it changed anything."""
    after = TRANSITIONS[watched.state].get(event)
    if after is None:
        return False
    watched.state = after
    return True
