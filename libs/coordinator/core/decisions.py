"""The interface between a coordinator's own code and the runtime: decide, replay, and the form of records in the log.

Order of effects: the runtime replays `records` at once, and notes `parks_as` and `timers`. It appends the records together with
those of other decisions. It sends `reply` and `wakes` once these records, and all that were replayed before them, are committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from libs.coordinator.core.timers import TimerKey
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.keyed_batches import TransactionalBatch

E_contra = TypeVar("E_contra", contravariant=True)
"""Events: requests, facts."""
R = TypeVar("R")
"""Replies."""
S = TypeVar("S")
"""Records in the coordinator's own types, named in the past tense."""

ParkKey = str | tuple[object, ...]


class KeyValue(NamedTuple):
    """One record as the log holds it."""

    key: bytes
    value: bytes | None
    """None for a tombstone."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The event that a timer came due. Something else may have happened since, so the state decides whether anything is due."""

    key: TimerKey


class Decision(NamedTuple, Generic[R, S]):
    """What a machine decided about one event. A tuple, since it is made for each request, and costs a third of a dataclass."""

    reply: R | None = None
    """The answer to the caller. None with `parks_as`: the caller waits until a later decision wakes it."""
    records: Sequence[S] = ()
    """The records of this decision. The log keeps all of them or none."""
    timers: Mapping[TimerKey, int | None] = MappingProxyType({})
    """Deadlines by key, in ms of wall time. None ends a timer."""
    parks_as: ParkKey | None = None
    wakes: Sequence[tuple[ParkKey, R]] = ()
    """Replies to parked callers, by their keys. A key under which nobody waits is ignored."""
    current: bool = False
    """The reply must not be older than the request. So the leader is asked first whether this process still owns the shard."""
    events: Sequence[Any] = ()
    """Facts for observers, who hear of them once the decision is committed. No decision reads them."""
    transaction: TransactionalBatch | None = None
    """The transaction to which the records belong. Only decisions about the same transaction share a batch, and a marker has one
    of its own. None: they belong to none."""
    room: int = 0
    """Bytes that a batch must hold beside the records. A later decision about the same state needs them."""


class Machine(Protocol[E_contra, R, S]):
    """A coordinator's own code. All of its state is in `tables.Table`s of the journal that it was made with."""

    def decide(self, event: E_contra | Expired, now_ms: int) -> Decision[R, S]:
        """The decision about one event. It reads state and changes nothing."""
        ...

    def decide_smaller(self, event: E_contra | Expired, now_ms: int) -> Decision[R, S] | None:
        """Another decision about an event whose usual one cannot be written: it fits no batch, or a record does not fit its
        format. None: there is no other."""
        ...

    def replay(self, record: S) -> None:
        """The only change of state. Compaction may have left only the last of several records with one key."""
        ...

    def encode(self, record: S) -> KeyValue | None:
        """The record as key and value. None for a record that the log does not keep: its effect ends with this owner, and is
        reverted like any other."""
        ...

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> S | None:
        """The record of a key and value; None for a kind that this version does not know. `transaction`: to which its batch
        belongs. Raises ValueError for what it cannot read."""
        ...

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        """The timers that the state asks for, after it was read from the log."""
        ...
