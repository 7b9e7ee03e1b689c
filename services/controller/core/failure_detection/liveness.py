"""Who is alive, as far as one controller can tell. Each controller keeps its own table, whether it is elected or not.

A process that ended is told by its connection: it is reset, and a probe of the process's address is refused. A process that is
stopped, or cut off, is told by its silence. Neither takes anything away from anybody by itself: the elected controller deletes
the dead member's key, which is guarded, and a member that lives all the same registers again.

Rule: half of the storage nodes falling silent together means that this controller is the one that is cut off.
docs/replication.md draws the table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from libs.cluster.records import CONTROLLER, STORAGE

HEARTBEAT_MS: Final = 300
SILENCE_MS: Final = 2_000
QUIET_MS: Final = SILENCE_MS - 2 * HEARTBEAT_MS
"""Who says nothing for so long when another counts as silent fell silent together with it."""
UNHEARD_MS: Final = 1_000
"""A member that this controller never heard of is probed after so long. What it does not refuse is left to its lease."""
PAUSE_MS: Final = 500
"""Ticks that are so late were held up here, and with them the heartbeats."""
PROBE_AGAIN_MS: Final = (20, 40, 80, 160, 320)
"""A process that is ending may accept for a moment; one that lives is back soon with a heartbeat."""


class State(Enum):
    ALIVE = "alive"
    SUSPECTED = "suspected"
    PROBING = "probing"
    DEAD = "dead"


class Fact(Enum):
    HEARTBEAT = "heartbeat"
    CONNECTION_LOST = "connection lost"
    UNHEARD = "never heard of"
    PROBE_SENT = "probe sent"
    NOT_REFUSED = "not refused"
    REFUSED = "refused"
    SILENCE = "silence"


TRANSITIONS: Final[Mapping[State, Mapping[Fact, State]]] = {
    State.ALIVE: {
        Fact.HEARTBEAT: State.ALIVE,
        Fact.CONNECTION_LOST: State.SUSPECTED,
        Fact.UNHEARD: State.SUSPECTED,
        Fact.SILENCE: State.DEAD,
    },
    State.SUSPECTED: {
        Fact.HEARTBEAT: State.ALIVE,
        Fact.PROBE_SENT: State.PROBING,
        Fact.SILENCE: State.DEAD,
    },
    State.PROBING: {
        Fact.HEARTBEAT: State.ALIVE,
        Fact.NOT_REFUSED: State.SUSPECTED,
        Fact.REFUSED: State.DEAD,
        Fact.SILENCE: State.DEAD,
    },
    State.DEAD: {Fact.HEARTBEAT: State.ALIVE},
}
"""A fact that is not named changes nothing: it came late."""


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


class Detection:
    """Times are of one monotonic clock. What is told of a process that is not watched is of a former life, or too early."""

    def __init__(self) -> None:
        self._watched: dict[Process, _Watched] = {}
        self._ticked_ms: int | None = None
        self.cut_off = False
        """This controller hears so few storage nodes that silence says nothing of them."""

    def watch(self, registered: Iterable[Process], now_ms: int) -> None:
        """Exactly these from now on."""
        self._watched = {process: self._watched.get(process) or _Watched(now_ms) for process in registered}

    def state(self, process: Process) -> State | None:
        watched = self._watched.get(process)
        return watched.state if watched is not None else None

    def heard(self) -> list[Process]:
        """Who has sent this controller a heartbeat, ever."""
        return [process for process, watched in self._watched.items() if watched.heard]

    def dead(self) -> list[Process]:
        return [process for process, watched in self._watched.items() if watched.state is State.DEAD]

    def heartbeat(self, process: Process, now_ms: int) -> None:
        watched = self._watched.get(process)
        if watched is not None:
            watched.heard, watched.heard_ms, watched.probes = True, now_ms, 0
            _apply(watched, Fact.HEARTBEAT)

    def connection_lost(self, process: Process, now_ms: int) -> None:
        watched = self._watched.get(process)
        if watched is not None and _apply(watched, Fact.CONNECTION_LOST):
            watched.probe_ms = now_ms

    def due_probes(self, now_ms: int) -> list[Process]:
        """To be probed now, and `probed` to be told of each."""
        due = [process for process, w in self._watched.items() if w.state is State.SUSPECTED and w.probe_ms <= now_ms]
        for process in due:
            _apply(self._watched[process], Fact.PROBE_SENT)
        return due

    def next_probe_ms(self) -> int | None:
        return min((w.probe_ms for w in self._watched.values() if w.state is State.SUSPECTED), default=None)

    def probed(self, process: Process, now_ms: int, *, refused: bool) -> None:
        watched = self._watched.get(process)
        if watched is None or not _apply(watched, Fact.REFUSED if refused else Fact.NOT_REFUSED):
            return
        watched.probe_ms = now_ms + PROBE_AGAIN_MS[min(watched.probes, len(PROBE_AGAIN_MS) - 1)]
        watched.probes += 1

    def tick(self, now_ms: int, since_last_ms: int) -> None:
        """To be called every `since_last_ms`."""
        self._forgive_own_pause(now_ms, since_last_ms)
        silent = self._quiet(now_ms, SILENCE_MS)
        quiet = self._quiet(now_ms, QUIET_MS)
        together = sum(process.role == STORAGE for process in quiet)
        storage = sum(process.role == STORAGE for process in self._watched)
        in_doubt = together >= 2 and 2 * together >= storage
        self.cut_off = in_doubt and any(process.role == STORAGE for process in silent)
        for watched in self._watched.values():
            if not watched.heard and watched.state is State.ALIVE and now_ms - watched.heard_ms >= UNHEARD_MS:
                _apply(watched, Fact.UNHEARD)
                watched.probe_ms = now_ms
        # A controller is not missed for its silence: an election lease takes care of the one that counts. Nobody else is while it
        # may turn out in a moment that we are cut off: shards would move for nothing.
        for process in () if in_doubt else silent:
            if process.role != CONTROLLER:
                _apply(self._watched[process], Fact.SILENCE)

    def _forgive_own_pause(self, now_ms: int, since_last_ms: int) -> None:
        late_ms = now_ms - self._ticked_ms - since_last_ms if self._ticked_ms is not None else 0
        self._ticked_ms = now_ms
        if late_ms >= PAUSE_MS:
            for watched in self._watched.values():
                watched.heard_ms = min(now_ms, watched.heard_ms + late_ms)

    def _quiet(self, now_ms: int, for_ms: int) -> list[Process]:
        """Who was heard once, is not known to have ended, and has said nothing for so long."""
        return [
            process
            for process, watched in self._watched.items()
            if watched.heard and watched.state is not State.DEAD and now_ms - watched.heard_ms >= for_ms
        ]


def _apply(watched: _Watched, fact: Fact) -> bool:
    """Whether it changed anything."""
    after = TRANSITIONS[watched.state].get(fact)
    if after is None:
        return False
    watched.state = after
    return True
