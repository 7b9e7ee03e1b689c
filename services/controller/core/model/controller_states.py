"""The states of a controller, as a transition table. It follows the image and detects failures in every state.

No state makes anything safe. Fenced writes stop a controller that was deposed and does not know it yet.
"""

from enum import Enum
from typing import Final


class ControllerState(Enum):
    BACKING_OFF = "backing off"
    """It may be cut off, so it does not campaign."""
    CAMPAIGNING = "campaigning"
    """It is a standby of the active controller, and is elected as soon as there is none."""
    ELECTED = "elected"
    """Its image may lack writes of its predecessors, so it does nothing yet."""
    ACTIVE = "active"
    DEPOSED = "deposed"
    """It gives up its key and lease, if it still has them."""


class ControllerEvent(Enum):
    HEARD = "it hears storage nodes, or has waited 5 s"
    CUT_OFF = "half of the storage nodes fell silent together"
    ELECTED = "it created the election key"
    CAUGHT_UP = "its image shows the election"
    LOST = "key or lease is gone, it is cut off, or it failed"
    LEFT = "it has resigned"


CONTROLLER_TRANSITIONS: Final[dict[tuple[ControllerState, ControllerEvent], ControllerState]] = {
    (ControllerState.BACKING_OFF, ControllerEvent.HEARD): ControllerState.CAMPAIGNING,
    (ControllerState.CAMPAIGNING, ControllerEvent.CUT_OFF): ControllerState.BACKING_OFF,
    (ControllerState.CAMPAIGNING, ControllerEvent.ELECTED): ControllerState.ELECTED,
    (ControllerState.ELECTED, ControllerEvent.CAUGHT_UP): ControllerState.ACTIVE,
    (ControllerState.ELECTED, ControllerEvent.LOST): ControllerState.DEPOSED,
    (ControllerState.ACTIVE, ControllerEvent.LOST): ControllerState.DEPOSED,
    (ControllerState.DEPOSED, ControllerEvent.LEFT): ControllerState.BACKING_OFF,
}
