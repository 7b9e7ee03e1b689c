"""The states of a classic group, as a transition table. Names are Kafka's: clients see them."""

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    """No members. There may be offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation, which waits for its leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group does not exist, or no longer. No table holds one."""


class Event(Enum):
    REBALANCES = "a member joins, leaves, times out or changes its metadata"
    JOINED = "all members joined, or the rebalance timeout is over"
    NOBODY_LEFT = "no member joined, and none is left"
    ASSIGNED = "the leader's assignment is in the log"
    REMOVED = "the group is removed"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCES): State.PREPARING_REBALANCE,
    (State.STABLE, Event.REBALANCES): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Event.REBALANCES): State.PREPARING_REBALANCE,
    (State.PREPARING_REBALANCE, Event.JOINED): State.COMPLETING_REBALANCE,
    (State.PREPARING_REBALANCE, Event.NOBODY_LEFT): State.EMPTY,
    (State.COMPLETING_REBALANCE, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.REMOVED): State.DEAD,
    (State.PREPARING_REBALANCE, Event.REMOVED): State.DEAD,
    (State.COMPLETING_REBALANCE, Event.REMOVED): State.DEAD,
    (State.STABLE, Event.REMOVED): State.DEAD,
}
