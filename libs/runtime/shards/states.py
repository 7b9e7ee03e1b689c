"""The life of a shard at one owner, as a table."""

from enum import Enum


class State(Enum):
    CLAIMING = "claiming"
    """Asks the partition's leader to refuse everybody else, and where the log ends."""
    LOADING = "loading"
    """Replays what is committed up to that end."""
    SERVING = "serving"
    UNLOADING = "unloading"
    """Takes nothing new; one append is still under way."""
    CLOSED = "closed"


class Fact(Enum):
    CLAIMED = "the leader took the claim"
    CAUGHT_UP = "all up to the claimed end is replayed"
    UNSURE = "the leader moved, or an append's fate is not known"
    FENCED = "a newer owner was seen"
    DISMISSED = "the image names another owner, or the process stops"
    SETTLED = "the last append was answered"


TRANSITIONS: dict[tuple[State, Fact], State] = {
    (State.CLAIMING, Fact.CLAIMED): State.LOADING,
    (State.CLAIMING, Fact.UNSURE): State.CLAIMING,
    (State.CLAIMING, Fact.FENCED): State.CLOSED,
    (State.CLAIMING, Fact.DISMISSED): State.CLOSED,
    (State.LOADING, Fact.CAUGHT_UP): State.SERVING,
    (State.LOADING, Fact.UNSURE): State.CLAIMING,
    (State.LOADING, Fact.FENCED): State.CLOSED,
    (State.LOADING, Fact.DISMISSED): State.CLOSED,
    (State.SERVING, Fact.UNSURE): State.CLAIMING,
    (State.SERVING, Fact.FENCED): State.CLOSED,
    (State.SERVING, Fact.DISMISSED): State.UNLOADING,
    (State.UNLOADING, Fact.SETTLED): State.CLOSED,
    (State.UNLOADING, Fact.UNSURE): State.CLOSED,
    (State.UNLOADING, Fact.FENCED): State.CLOSED,
    (State.UNLOADING, Fact.DISMISSED): State.UNLOADING,
}
