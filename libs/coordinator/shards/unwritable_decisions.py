"""Decisions of all shards of a process that cannot be written: each is counted and told of in a line, whether it was replaced or
not."""

import logging
from collections import Counter
from typing import Final

from libs.coordinator.core.decisions import Expired
from libs.coordinator.core.unwritable import TooLarge, Unwritable
from libs.telemetry.limited_lines import LimitedLines, Timers

log = logging.getLogger("coordinators")

LINES_S: Final = 60.0
REPLACED: Final = "replaced"
GIVEN_UP: Final = "given up"
TIMER, REQUEST, BATCH = "timer", "request", "batch"
ASKED_BY: Final = (TIMER, REQUEST, BATCH)


class UnwritableDecisions:
    """The count of unwritable decisions of all shards of a process, and a line about each, one a minute for each shard and kind
    of event."""

    def __init__(self, timers: Timers) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number by the kind of the event, and by what became of the decision."""
        self._lines = LimitedLines(log, LINES_S, timers)

    def note(self, shard: str, unwritable: Unwritable) -> None:
        event = unwritable.event
        due = isinstance(event, Expired)
        outcome = REPLACED if unwritable.replaced else GIVEN_UP
        self.counts[TIMER if due else REQUEST, outcome] += 1
        if not unwritable.replaced and not isinstance(unwritable.reason, TooLarge):
            return  # the machine failed, and the shard's driver tells of that
        what = repr(event.key) if due else type(getattr(event, "request", event)).__name__
        text = "a smaller decision was made" if unwritable.replaced else "a decision cannot be written"
        kind = event.key[:2] if due and isinstance(event.key, tuple) else what
        self._lines.write((shard, kind, outcome), logging.WARNING, text, shard=shard, event=what, reason=unwritable.reason)

    def refused(self, shard: str, size: int) -> None:
        """The leader found a batch too large: the topic allows less than this process has heard."""
        self.counts[BATCH, GIVEN_UP] += 1
        self._lines.write((shard, "batch"), logging.WARNING, "the log refuses a batch as too large", shard=shard, bytes=size)
