"""The life of a group of the consumer protocol, as a table. Names are Kafka's: clients see them.

The state follows from epochs and members (`group.Group.state`), it is not kept. What the table does not have does not happen.
"""

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    """No members. There may be offsets."""
    ASSIGNING = "Assigning"
    """The group epoch is higher than that of the target assignment: the next heartbeat makes a new one."""
    RECONCILING = "Reconciling"
    """Somebody does not have yet what it is to have."""
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group (any more). No table holds one."""


class Fact(Enum):
    ASSIGNED = "a heartbeat makes a new target assignment: somebody joined, left or asks for other topics, or topics changed"
    FENCED = "a member leaves, or is removed, and others are there"
    AWAY = "a static member leaves for a while, or a member joins that asks for nothing"
    RECONCILED = "everybody has what it is to have"
    NOBODY_LEFT = "the last member leaves, or is removed"
    REMOVED = "the group is removed"


TRANSITIONS: dict[tuple[State, Fact], State] = {
    (State.EMPTY, Fact.ASSIGNED): State.RECONCILING,
    (State.ASSIGNING, Fact.ASSIGNED): State.RECONCILING,
    (State.STABLE, Fact.ASSIGNED): State.RECONCILING,
    (State.RECONCILING, Fact.RECONCILED): State.STABLE,
    (State.STABLE, Fact.AWAY): State.RECONCILING,
    (State.RECONCILING, Fact.FENCED): State.ASSIGNING,
    (State.STABLE, Fact.FENCED): State.ASSIGNING,
    (State.ASSIGNING, Fact.NOBODY_LEFT): State.EMPTY,
    (State.RECONCILING, Fact.NOBODY_LEFT): State.EMPTY,
    (State.STABLE, Fact.NOBODY_LEFT): State.EMPTY,
    (State.EMPTY, Fact.REMOVED): State.DEAD,
}
