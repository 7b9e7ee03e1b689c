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


class Fact(Enum):
    CLAIMED = "the leader took the claim"
    CAUGHT_UP = "all records before the claimed end are replayed"
    OUTCOME_UNKNOWN = "the leader moved, or the outcome of an append is unknown"
    FENCED = "a newer owner was seen"
    RESIGNED = "the image names another owner, or the process stops"
    DRAINED = "the last append was answered"


TRANSITIONS: dict[tuple[State, Fact], State] = {
    (State.CLAIMING, Fact.CLAIMED): State.LOADING,
    (State.CLAIMING, Fact.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.CLAIMING, Fact.FENCED): State.CLOSED,
    (State.CLAIMING, Fact.RESIGNED): State.CLOSED,
    (State.LOADING, Fact.CAUGHT_UP): State.SERVING,
    (State.LOADING, Fact.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.LOADING, Fact.FENCED): State.CLOSED,
    (State.LOADING, Fact.RESIGNED): State.CLOSED,
    (State.SERVING, Fact.OUTCOME_UNKNOWN): State.CLAIMING,
    (State.SERVING, Fact.FENCED): State.CLOSED,
    (State.SERVING, Fact.RESIGNED): State.UNLOADING,
    (State.UNLOADING, Fact.DRAINED): State.CLOSED,
    (State.UNLOADING, Fact.OUTCOME_UNKNOWN): State.CLOSED,
    (State.UNLOADING, Fact.FENCED): State.CLOSED,
    (State.UNLOADING, Fact.RESIGNED): State.UNLOADING,
}
