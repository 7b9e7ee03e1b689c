"""Reads of a log that failed: told once for each place, however many consumers come back to it."""

import errno
import logging
from collections.abc import Callable

from libs.commitlog.errors import LogDamaged
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

PLACES_MAX = 100


class FailedReads:
    """Of one partition. An error's words name the place. `on_damage` hears of the first that shows that the log is damaged."""

    __slots__ = ("_told", "damaged", "on_damage")

    def __init__(self) -> None:
        self._told: set[str] = set()
        self.damaged = False
        self.on_damage: Callable[[], None] | None = None

    def tell(self, partition: object, error: Exception, **where: object) -> None:
        if not self.damaged and _is_damage(error):
            self.damaged = True
            if self.on_damage is not None:
                self.on_damage()
        words = str(error)
        if words in self._told:
            return
        if len(self._told) >= PLACES_MAX:
            self._told.clear()
        self._told.add(words)
        log.error("read failed, and so will every read of this place", extra=fields(partition=partition, **where, reason=error))


def _is_damage(error: Exception) -> bool:
    """Any other error may be of a file that has just left the log, or of a process that has no descriptor to spare."""
    return isinstance(error, LogDamaged) or (isinstance(error, OSError) and error.errno == errno.EIO)
