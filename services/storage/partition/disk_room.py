"""The room of a log directory: whether it takes appends, and the log lines about those that failed.

A full disk is no failed disk. As nothing was written, appends are refused with KAFKA_STORAGE_ERROR and reads go on, where Kafka
takes the directory offline until a restart (docs/adr/0026-full-disks-serve-reads.md). It ends by itself once there is room.

A quota may leave bytes free and refuse each append. Then each attempt to go on fails, so attempts become rarer.
"""

import logging
from collections.abc import Callable
from typing import Final

from libs.commitlog.model.errors import LogWriteError
from libs.telemetry.limited_lines import LimitedLines, Timers

log = logging.getLogger("disks")

LINES_S: Final = 60.0
"""The time between two lines about failed appends of one directory, for the same reason."""
ROOM_BYTES: Final = 4 << 20
"""The free bytes with which a full directory may take appends again: those of a large batch."""
QUIET_S: Final = 5.0
"""The time without a refusal after which a full directory may take appends again."""
QUIET_S_MAX: Final = 320.0
"""The longest such time. It doubles each time that a directory is full again soon after it took appends."""


class DiskRoom:
    """The room of a log directory. `on_change` is called when `full` changes, maybe amid an append."""

    def __init__(self, path: str, timers: Timers, on_change: Callable[[], None]) -> None:
        self._path = path
        self._now = timers.time
        self._on_change = on_change
        self._lines = LimitedLines(log, LINES_S, timers)
        self._refused_at = 0.0
        self._refused = 0
        self._quiet_s = 0.0
        self._ended_at = 0.0
        self.full = False
        """Whether an append found no room, and the directory has none since."""

    def append_failed(self, error: LogWriteError, partition: object) -> None:
        """Notes a failed append to any partition here. Of many, one line is logged."""
        now = self._now()
        if error.no_room:
            self._refuse(now)
        event = "log directory is full: appends are refused" if error.no_room else "append failed"
        details = {"path": self._path, "partition": str(partition), "reason": str(error)}
        self._lines.write((event, error.number), logging.ERROR, event, **details)

    def opening_failed(self) -> None:
        """Notes that a log could not be opened or made for lack of room."""
        self._refuse(self._now())

    def _refuse(self, now: float) -> None:
        self._refused_at = now
        self._refused += 1
        if not self.full:
            again = self._quiet_s and now - self._ended_at < 2 * self._quiet_s
            self._quiet_s = min(2 * self._quiet_s, QUIET_S_MAX) if again else QUIET_S
            self.full = True
            self._on_change()

    def measured(self, free_bytes: int) -> None:
        """Takes a new reading of the free bytes, which may end that the directory is full."""
        if self.full and free_bytes >= ROOM_BYTES and self._now() - self._refused_at >= self._quiet_s:
            event, details = "log directory takes appends again", {"free_bytes": free_bytes, "refused": self._refused}
            self._lines.write(event, logging.INFO, event, path=self._path, **details)
            self.full = False
            self._refused = 0
            self._ended_at = self._now()
            self._on_change()
