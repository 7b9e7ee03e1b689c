"""The room of a log directory: whether it takes appends, and the log lines about those that failed.

A full disk is no failed disk. As nothing was written, appends are refused with KAFKA_STORAGE_ERROR and reads go on, where Kafka
takes the directory offline until a restart (docs/adr/0026-full-disks-serve-reads.md). It ends by itself once there is room.
"""

import logging
from collections.abc import Callable
from typing import Final

from libs.commitlog.model.errors import LogWriteError
from libs.telemetry.log_limit import LogLimits
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

LINES_S: Final = 60.0
"""The time between two lines about failed appends of one directory, for the same reason."""
ROOM_BYTES: Final = 4 << 20
"""The free bytes with which a full directory may take appends again: those of a large batch."""
QUIET_S: Final = 5.0
"""The time without a refusal after which a full directory may take appends again. A quota may leave bytes free, and refuse."""


class DiskRoom:
    """The room of one log directory. Times are those of `now`."""

    def __init__(self, path: str, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._limits = LogLimits(LINES_S)
        self._refused_at = 0.0
        self._refused = 0
        self.full = False
        """Whether an append found no room, and the directory has none since."""

    def append_failed(self, error: LogWriteError, partition: object) -> None:
        """Notes a failed append to any partition here. Of many, one line is logged."""
        now = self._now()
        if error.no_room:
            self.full = True
            self._refused_at = now
            self._refused += 1
        event = "log directory is full: appends are refused" if error.no_room else "append failed"
        if count := self._limits.count((event, error.number), now):
            log.error(event, extra=fields(path=self._path, partition=partition, reason=error, count=count))

    def opening_failed(self) -> None:
        """Notes that a log could not be opened or made for lack of room."""
        self.full = True
        self._refused_at = self._now()
        self._refused += 1

    def measured(self, free_bytes: int) -> None:
        """Takes a new reading of the free bytes, which may end that the directory is full."""
        if self.full and free_bytes >= ROOM_BYTES and self._now() - self._refused_at >= QUIET_S:
            if count := self._limits.count("again", self._now()):
                details = fields(path=self._path, free_bytes=free_bytes, refused=self._refused, count=count)
                log.info("log directory takes appends again", extra=details)
            self.full = False
            self._refused = 0
