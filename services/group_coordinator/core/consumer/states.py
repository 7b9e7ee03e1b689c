"""The states of a consumer group, as a transition table. Names are Kafka's, since clients see them.

The state follows from epochs and members (`group.Group.state`) and is not stored. A transition that is not in the table does not
happen.
"""

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    """No members. There may be offsets."""
    ASSIGNING = "Assigning"
    """The group epoch is above that of the target assignment. The next heartbeat makes a new one."""
    RECONCILING = "Reconciling"
    """A member does not have its target assignment yet."""
    STABLE = "Stable"
    DEAD = "Dead"
    """The group does not exist, or no longer. No table holds one."""


class Event(Enum):
    ASSIGNED = "a heartbeat makes a new target assignment: a member joined, left or changed its subscription, or topics changed"
    FENCED = "a member leaves or is removed, and others remain"
    AWAY = "a static member leaves for a while, or a member joins without a subscription"
    RECONCILED = "every member has its target assignment"
    NOBODY_LEFT = "the last member leaves or is removed"
    REMOVED = "the group is removed"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.ASSIGNED): State.RECONCILING,
    (State.ASSIGNING, Event.ASSIGNED): State.RECONCILING,
    (State.STABLE, Event.ASSIGNED): State.RECONCILING,
    (State.RECONCILING, Event.RECONCILED): State.STABLE,
    (State.STABLE, Event.AWAY): State.RECONCILING,
    (State.RECONCILING, Event.FENCED): State.ASSIGNING,
    (State.STABLE, Event.FENCED): State.ASSIGNING,
    (State.ASSIGNING, Event.NOBODY_LEFT): State.EMPTY,
    (State.RECONCILING, Event.NOBODY_LEFT): State.EMPTY,
    (State.STABLE, Event.NOBODY_LEFT): State.EMPTY,
    (State.EMPTY, Event.REMOVED): State.DEAD,
}
