"""The life of a classic group, as a table. Names are Kafka's: clients see them."""

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    """No members. There may be offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation. Waits for its leader's assignment."""
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group (any more). No table holds one."""


class Fact(Enum):
    REBALANCES = "a member joins, leaves, is silent or changes what it asks for"
    JOINED = "all members joined, or the rebalance timeout is over"
    NOBODY_LEFT = "nobody joined, and nobody is left"
    ASSIGNED = "the leader's assignment is in the log"
    REMOVED = "the group is removed"


TRANSITIONS: dict[tuple[State, Fact], State] = {
    (State.EMPTY, Fact.REBALANCES): State.PREPARING_REBALANCE,
    (State.STABLE, Fact.REBALANCES): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Fact.REBALANCES): State.PREPARING_REBALANCE,
    (State.PREPARING_REBALANCE, Fact.JOINED): State.COMPLETING_REBALANCE,
    (State.PREPARING_REBALANCE, Fact.NOBODY_LEFT): State.EMPTY,
    (State.COMPLETING_REBALANCE, Fact.ASSIGNED): State.STABLE,
    (State.EMPTY, Fact.REMOVED): State.DEAD,
    (State.PREPARING_REBALANCE, Fact.REMOVED): State.DEAD,
    (State.COMPLETING_REBALANCE, Fact.REMOVED): State.DEAD,
    (State.STABLE, Fact.REMOVED): State.DEAD,
}
