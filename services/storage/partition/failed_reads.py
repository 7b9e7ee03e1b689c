"""Failed reads of a log: each place is reported once, however many consumers come back to it."""

import errno
import logging
from collections.abc import Callable

from libs.commitlog.model.errors import LogDamaged
from libs.telemetry.logs import fields

log = logging.getLogger("disks")

PLACES_MAX = 100


class FailedReads:
    """The failed reads of one partition. An error's message names the place. `on_damage` is called for the first damage."""

    __slots__ = ("_reported", "damaged", "on_damage")

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self.damaged = False
        self.on_damage: Callable[[], None] | None = None

    def report(self, partition: object, error: Exception, **where: object) -> None:
        if not self.damaged and _is_damage(error):
            self.damaged = True
            if self.on_damage is not None:
                self.on_damage()
        message = str(error)
        if message in self._reported:
            return
        if len(self._reported) >= PLACES_MAX:
            self._reported.clear()
        self._reported.add(message)
        log.error("read failed, and so will every read of this place", extra=fields(partition=partition, **where, reason=error))


def _is_damage(error: Exception) -> bool:
    """Any other error may be of a file that has just left the log, or of a process without free descriptors."""
    return isinstance(error, LogDamaged) or (isinstance(error, OSError) and error.errno == errno.EIO)
