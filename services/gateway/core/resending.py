"""Whether a batch whose leader did not store it is sent again: one table, from how the try ended and what the batch is.

Rule (docs/rules.md): sending a batch again must not store it twice, and must let no later batch of its client overtake it.

- A batch that was never sent is in no log, and nobody has heard of it. It may wait for a leader.
- A batch that was sent and not answered may be in the log. The leader recognises it if it comes again only by its producer id.
- A refusal is an answer, and so are those of later batches of the connection: one of them may be stored by now. Only if the batch
  is alone, or if the same node refuses all of them, since it was deposed, does the order stay.
- A replaced leader is not waited for: it may be stopped or cut off, and its connection may look sound for minutes. Only it knows
  of a batch without a producer id, and gets a moment to tell.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple


class Ended(Enum):
    """How a try ended."""

    UNSENT = "never sent"
    REFUSED = "refused by a node that does not lead the partition"
    BROKEN = "sent, and the connection broke"
    TIMED_OUT = "sent, and not answered in time"
    REPLACED = "in flight, and another leader is known"
    ABANDONED = "in flight, and the former leader's moment is over"


class Then(Enum):
    """What follows for the batch."""

    PARK = "it waits for the leader"
    AWAIT = "the former leader has a moment to answer"
    FAIL = "its client gets an error"


class Sent(NamedTuple):
    """What counts of a batch that was sent to a node."""

    identified: bool
    """It has a producer id."""
    answered: bool = True
    """The client waits for an answer: acks is not 0."""
    gone: bool = False
    """The client has disconnected."""
    alone: bool = False
    """No other request of its connection is outstanding."""
    deposed: bool = False
    """A newer leader than the node is known, to the node or here."""
    in_log: bool = False
    """It is in the node's log, and the next leader may have it or not."""


def always(batch: Sent) -> bool:
    return True


def is_identified(batch: Sent) -> bool:
    return batch.identified


def is_identified_and_answered(batch: Sent) -> bool:
    return batch.identified and batch.answered


def is_refused_harmlessly(batch: Sent) -> bool:
    wanted = batch.answered and not batch.gone
    in_order = batch.alone or (batch.identified and batch.deposed)
    stored_once = batch.identified or not batch.in_log
    return wanted and in_order and stored_once


RESENDING: Final[Mapping[Ended, tuple[tuple[Callable[[Sent], bool], Then], ...]]] = {
    Ended.UNSENT: ((always, Then.PARK),),
    Ended.REFUSED: ((is_refused_harmlessly, Then.PARK), (always, Then.FAIL)),
    Ended.BROKEN: ((is_identified, Then.PARK), (always, Then.FAIL)),
    Ended.TIMED_OUT: ((always, Then.FAIL),),
    Ended.REPLACED: ((is_identified_and_answered, Then.PARK), (always, Then.AWAIT)),
    Ended.ABANDONED: ((is_identified_and_answered, Then.PARK), (always, Then.FAIL)),
}
"""By the end of a try: conditions in their order, and what follows from the first that holds."""

PAUSE_S_FIRST, PAUSE_S_MAX = 0.02, 0.32
"""The pause between two tries in one leader epoch. A new epoch in the image ends the pause."""


def what_follows(ended: Ended, batch: Sent) -> Then:
    return next(then for holds, then in RESENDING[ended] if holds(batch))


def pause_s(*, newer_elsewhere: bool, former_s: float | None) -> float:
    """The pause after a refusal. `newer_elsewhere`: the node knows a newer epoch, which the next image will name. `former_s`: the
    pause after the last refusal of the batch in this epoch, if there was one."""
    if newer_elsewhere:
        return PAUSE_S_MAX
    return PAUSE_S_FIRST if former_s is None else min(2 * former_s, PAUSE_S_MAX)
