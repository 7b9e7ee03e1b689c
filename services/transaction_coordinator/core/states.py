"""The states of a transaction, as a transition table. Names and numbers are Kafka's: tools and the log show them.

A transition that is not in the table does not happen. There is no PrepareEpochFence (7) here: Kafka passes through it in memory
only, between the two steps of an abort by the coordinator. Here both are one record.
"""

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    """A producer has the transactional id, and has begun no transaction since."""
    ONGOING = "Ongoing"
    """Partitions or offsets belong to the transaction. Its timeout runs."""
    PREPARE_COMMIT = "PrepareCommit"
    """The outcome is decided. Markers go to each partition until all are written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    """Each partition has its marker."""
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The transactional id expired. No table holds one."""

    @property
    def number(self) -> int:
        """Kafka's number of the state in TransactionLogValue."""
        return _NUMBERS[self]


_NUMBERS = {state: number for number, state in enumerate(State)}
BY_NUMBER = {number: state for state, number in _NUMBERS.items()}

PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
"""States that wait for markers."""
AT_REST = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""States without a transaction under way."""


class Event(Enum):
    INITIALIZED = "a producer asks for a producer id or a new epoch"
    ADDED = "a partition or a group's offsets are added"
    COMMITTED = "the producer commits"
    ABORTED = "the producer or an operator aborts, the timeout is over, or another producer takes the transactional id"
    ABORTED_EMPTY = "the producer aborts a transaction without partitions (KIP-890)"
    MARKED = "each partition has its marker"
    EXPIRED = "the transactional id was not used for transactional.id.expiration.ms"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.INITIALIZED): State.EMPTY,
    (State.EMPTY, Event.ADDED): State.ONGOING,
    (State.EMPTY, Event.ABORTED_EMPTY): State.PREPARE_ABORT,
    (State.EMPTY, Event.EXPIRED): State.DEAD,
    (State.ONGOING, Event.ADDED): State.ONGOING,
    (State.ONGOING, Event.COMMITTED): State.PREPARE_COMMIT,
    (State.ONGOING, Event.ABORTED): State.PREPARE_ABORT,
    (State.PREPARE_COMMIT, Event.MARKED): State.COMPLETE_COMMIT,
    (State.PREPARE_ABORT, Event.MARKED): State.COMPLETE_ABORT,
    (State.COMPLETE_COMMIT, Event.INITIALIZED): State.EMPTY,
    (State.COMPLETE_COMMIT, Event.ADDED): State.ONGOING,
    (State.COMPLETE_COMMIT, Event.ABORTED_EMPTY): State.PREPARE_ABORT,
    (State.COMPLETE_COMMIT, Event.EXPIRED): State.DEAD,
    (State.COMPLETE_ABORT, Event.INITIALIZED): State.EMPTY,
    (State.COMPLETE_ABORT, Event.ADDED): State.ONGOING,
    (State.COMPLETE_ABORT, Event.ABORTED_EMPTY): State.PREPARE_ABORT,
    (State.COMPLETE_ABORT, Event.EXPIRED): State.DEAD,
}
