"""What a coordinator's own code is to the runtime: it decides, replays, and says how its records look in the log.

Order of effects: `records` are replayed at once, `parks` and `timers` are noted; the records are appended together with those
of other decisions; once they and all that was replayed before them are committed, `reply` and `wakes` are sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from libs.runtime.shards.timers import TimerKey

E_contra = TypeVar("E_contra", contravariant=True)
"""Events: requests, facts."""
R = TypeVar("R")
"""Replies."""
S = TypeVar("S")
"""Records, as the coordinator's own types: past tense."""

ParkKey = str | tuple[object, ...]


class KeyValue(NamedTuple):
    """A record as it stands in the log."""

    key: bytes
    value: bytes | None
    """None: a tombstone."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The event that a timer came due. It may be late or too early by what happened since: the state decides."""

    key: TimerKey


class Decision(NamedTuple, Generic[R, S]):
    """A tuple: there is one for each request, and it is made in a third of the time."""

    reply: R | None = None
    """None: nothing to be said now. With `parks_as` the asker waits until a later decision wakes it."""
    records: Sequence[S] = ()
    """All of them survive or none."""
    timers: Mapping[TimerKey, int | None] = MappingProxyType({})
    """Wall time in ms; None ends a timer."""
    parks_as: ParkKey | None = None
    wakes: Sequence[tuple[ParkKey, R]] = ()
    """Replies to those who wait. A key under which nobody waits (any more) is passed over."""
    current: bool = False
    """The reply must not be older than the question: the leader is asked first whether this is still the owner."""
    happened: Sequence[Any] = ()
    """What is told of it once it is committed. Nothing is decided by that."""


class Machine(Protocol[E_contra, R, S]):
    """All of its state stands in `tables.Table`s of the journal that it was made with."""

    def decide(self, event: E_contra | Expired, now_ms: int) -> Decision[R, S]:
        """Reads only."""
        ...

    def replay(self, record: S) -> None:
        """The only thing that changes state. Of the records with one key, compaction may have left the last alone."""
        ...

    def encode(self, record: S) -> KeyValue | None:
        """None: it is not kept in the log. What it changes is gone with this owner, and taken back like all else."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> S | None:
        """None: of a kind that this version does not know. Raises ValueError for what cannot be read."""
        ...

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        """What the tables ask to be woken for, after they were read from the log."""
        ...
