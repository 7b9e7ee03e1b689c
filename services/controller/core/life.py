"""A controller's life, as a table. It is warm in every state: it follows the image and watches over the living all along.

Nothing is safe because of a state. A controller that was deposed and does not know it yet is held back by its fenced writes.
"""

from enum import Enum
from typing import Final


class Life(Enum):
    STANDING_BACK = "standing back"
    """It may be cut off: it leaves the office to others."""
    CAMPAIGNING = "campaigning"
    """It stands by while somebody else is in office, and tries as soon as the office is vacant."""
    ELECTED = "elected"
    """Its image may lack what its predecessors wrote, so it does nothing yet."""
    IN_OFFICE = "in office"
    DEPOSED = "deposed"
    """It gives up key and lease, if it still has them."""


class LifeStep(Enum):
    HEARD = "it hears storage nodes, or has waited 5 s"
    CUT_OFF = "half of the storage nodes fell silent together"
    ELECTED = "it created the election key"
    CAUGHT_UP = "its image shows the election"
    LOST = "key or lease is gone, it is cut off, or it failed"
    LEFT = "the office is vacant"


LIFE_TRANSITIONS: Final[dict[tuple[Life, LifeStep], Life]] = {
    (Life.STANDING_BACK, LifeStep.HEARD): Life.CAMPAIGNING,
    (Life.CAMPAIGNING, LifeStep.CUT_OFF): Life.STANDING_BACK,
    (Life.CAMPAIGNING, LifeStep.ELECTED): Life.ELECTED,
    (Life.ELECTED, LifeStep.CAUGHT_UP): Life.IN_OFFICE,
    (Life.ELECTED, LifeStep.LOST): Life.DEPOSED,
    (Life.IN_OFFICE, LifeStep.LOST): Life.DEPOSED,
    (Life.DEPOSED, LifeStep.LEFT): Life.STANDING_BACK,
}
