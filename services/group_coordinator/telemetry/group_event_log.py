"""Log lines about groups: three a second for each group and kind of event, and a bound for all of them together. Dropped lines
are counted, and the count is logged; they are all there at DEBUG."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from libs.telemetry.logs import fields

log = logging.getLogger("groups")

EVERY_S: Final = 1.0
GROUP_LINES_MAX: Final = 3
"""Lines per second for each group and kind of event: a member that joins, and what befalls it, may come within a second."""
LINES_MAX: Final = 50
"""Lines per second. In addition there may be as many that count dropped lines, and one for each kind of event."""

Later = Callable[[float, Callable[[], None]], object]
"""A function like `loop.call_later`."""


class GroupEventLog:
    """The log lines about groups. A period of one second begins with the first line after the last period, so no timer runs while
    nothing happens."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._logged: Counter[tuple[str, str]] = Counter()
        self._passed: Counter[tuple[str, str]] = Counter()
        self._passed_of_others: Counter[str] = Counter()

    def write(self, event: str, group: str, **values: object) -> None:
        key = event, group
        if not self._logged:
            self._later(EVERY_S, self._over)
        elif self._logged[key] >= GROUP_LINES_MAX or self._logged.total() >= LINES_MAX:
            self._pass(key)
            if log.isEnabledFor(logging.DEBUG):
                log.debug(event, extra=fields(group=group, **values))
            return
        self._logged[key] += 1
        log.info(event, extra=fields(group=group, **values))

    def _pass(self, key: tuple[str, str]) -> None:
        if key in self._passed or len(self._passed) < LINES_MAX:
            self._passed[key] += 1
        else:
            self._passed_of_others[key[0]] += 1

    def _over(self) -> None:
        self._logged.clear()
        passed, self._passed = self._passed, Counter()
        others, self._passed_of_others = self._passed_of_others, Counter()
        for (event, group), count in passed.items():
            log.info("passed over", extra=fields(passed_over=event, count=count, group=group))
        for event, count in others.items():
            log.info("passed over", extra=fields(passed_over=event, count=count, groups="others"))
