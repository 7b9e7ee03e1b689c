"""The effects that a replica owes to those who wait for it, and the order in which they are carried out.

A method of `Replica` that changes a number notes an effect; it calls nobody. Effects are flags, so that a turn in which the high
watermark rises ten times wakes each waiter once. `services/storage/partition/effects.py` carries them out, as raft's `Ready` is.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")

HIGH_WATERMARK_ROSE = 1
LOG_START_ROSE = 2
"""The log of this node begins later."""
LEAST_LOG_START_MOVED = 4
"""The smallest log start over the maximal ISR may have changed, or this node leads no longer."""
FOLLOWER_MAY_JOIN = 8
"""A follower outside the ISR has caught up."""
ISR_CHANGED = 16
"""The committed ISR has other members than when it was last reported, in the same leader epoch."""


class EffectHandlers(NamedTuple, Generic[P]):
    """The handlers of effects. Each is called with the partition."""

    answer_produces: Callable[[P], None]
    wake_fetches: Callable[[P], None]
    notify_pulls: Callable[[P], None]
    report_log_start: Callable[[P], None]
    wake_record_deletions: Callable[[P], None]
    change_isr: Callable[[P], None]
    report_isr: Callable[[P], None]


def in_order(handlers: EffectHandlers[P]) -> tuple[tuple[int, Callable[[P], None]], ...]:
    """Flags, and the handler for any of them: the one place that declares the order of effects.

    Producers are answered before consumers can read their records. Followers hear of a high watermark after both, since it waits
    for the next batches in any case. The ISR comes last: its change may raise the high watermark again.
    """
    return (
        (HIGH_WATERMARK_ROSE, handlers.answer_produces),
        (HIGH_WATERMARK_ROSE, handlers.wake_fetches),
        (HIGH_WATERMARK_ROSE | LOG_START_ROSE, handlers.notify_pulls),
        (LOG_START_ROSE, handlers.report_log_start),
        (LEAST_LOG_START_MOVED, handlers.wake_record_deletions),
        (FOLLOWER_MAY_JOIN, handlers.change_isr),
        (ISR_CHANGED, handlers.report_isr),
    )
