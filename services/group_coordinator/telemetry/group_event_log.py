"""Lines of the log about groups: of each group and kind of event one a second, and of all of them together so many that no storm
fills a disk. What was passed over is counted, and told when the second is over."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
LINES_MAX: Final = 50
"""A second; and as many again that count what was passed over, and one for each kind of event."""

Later = Callable[[float, Callable[[], None]], object]
"""As `loop.call_later`."""


class GroupLines:
    """Nothing is due while nothing happens: a second begins with a line."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._told: set[tuple[str, str]] = set()
        self._passed: Counter[tuple[str, str]] = Counter()
        self._passed_of_others: Counter[str] = Counter()

    def tell(self, event: str, group: str, **values: object) -> None:
        key = event, group
        if not self._told:
            self._later(EVERY_S, self._over)
        elif key in self._told or len(self._told) >= LINES_MAX:
            self._pass(key)
            return
        self._told.add(key)
        log.info(event, extra=fields(group=group, **values))

    def _pass(self, key: tuple[str, str]) -> None:
        if key in self._passed or len(self._passed) < LINES_MAX:
            self._passed[key] += 1
        else:
            self._passed_of_others[key[0]] += 1

    def _over(self) -> None:
        self._told.clear()
        passed, self._passed = self._passed, Counter()
        others, self._passed_of_others = self._passed_of_others, Counter()
        for (event, group), count in passed.items():
            log.info("passed over", extra=fields(passed_over=event, count=count, group=group))
        for event, count in others.items():
            log.info("passed over", extra=fields(passed_over=event, count=count, groups="others"))
