"""The states of a shard at one owner, as a transition table."""

from enum import Enum


class State(Enum):
    CLAIMING = "claiming"
    """Asks the partition's leader to refuse all other writers, and to say where the log ends."""
    LOADING = "loading"
    """Replays committed records up to that end."""
    SERVING = "serving"
    UNLOADING = "unloading"
    """Takes no new requests; one append is in flight."""
    CLOSED = "closed"


class Event(Enum):
    CLAIMED = "the leader took the claim"
    CAUGHT_UP = "all records before the claimed end are replayed"
    OUTCOME_UNKNOWN = "the leader moved, or the outcome of an append is unknown"
    FENCED = "a newer owner was seen"
    RESIGNED = "the image names another owner, or the process stops"
    DRAINED = "the last append was answered"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.CLAIMING, Event.CLAIMED): State.LOADING,
    (State.CLAIMING, Event.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.CLAIMING, Event.FENCED): State.CLOSED,
    (State.CLAIMING, Event.RESIGNED): State.CLOSED,
    (State.LOADING, Event.CAUGHT_UP): State.SERVING,
    (State.LOADING, Event.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.LOADING, Event.FENCED): State.CLOSED,
    (State.LOADING, Event.RESIGNED): State.CLOSED,
    (State.SERVING, Event.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.SERVING, Event.FENCED): State.CLOSED,
    (State.SERVING, Event.RESIGNED): State.UNLOADING,
    (State.UNLOADING, Event.DRAINED): State.CLOSED,
    (State.UNLOADING, Event.OUTCOME_UNKNOWN): State.CLOSED,
    (State.UNLOADING, Event.FENCED): State.CLOSED,
    (State.UNLOADING, Event.RESIGNED): State.UNLOADING,
}
