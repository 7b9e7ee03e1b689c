"""Errors that the log raises to its owner."""

import errno
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk that is sound, but full."""


class WouldBlock(Exception):
    """An operation that would wait for a disk, or take too long for an event loop."""


class OffsetOutOfRange(Exception):
    """The offset lies before the log's start or after its end."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside of [{log_start_offset}, {log_end_offset}]")
        self.offset = offset


class LogWriteError(Exception):
    """An append that failed and left nothing behind. `fatal`: the log refuses all appends until it is opened again. `number` is
    the errno, 0 if there is none."""

    def __init__(self, message: str, *, fatal: bool, number: int = 0) -> None:
        super().__init__(message)
        self.fatal = fatal
        self.number = number

    @property
    def no_room(self) -> bool:
        """Whether the disk was full, or a quota was used up. Nothing is broken."""
        return not self.fatal and self.number in NO_ROOM


class LogDamaged(Exception):
    """Synced bytes that are not the bytes that were written. They are never cut silently, since a replica may have them."""


class RecoveryTooLarge(Exception):
    """An opening that would read more than its bound. It changed nothing that a crash could not have changed, too."""

    def __init__(self, total_bytes: int) -> None:
        super().__init__(total_bytes)
        self.total_bytes = total_bytes


class SyncFailed(OSError):
    """A failed sync. Written bytes may be lost, and a second sync would succeed falsely, so the log directory is of no more
    use."""


class DirectoryLocked(Exception):
    """A log directory that another process uses."""


class DirectoryRetired(Exception):
    """A log directory that an earlier process gave up, and whose disk no operator has vouched for since."""


class DirectoryOwnerMismatch(Exception):
    """A sound log directory that belongs to another node or cluster."""

    def __init__(self, path: str, owner: str, theirs: str, ours: str) -> None:
        """`owner`: cluster or node."""
        super().__init__(f"{path} belongs to another {owner}, {theirs}, not to {ours}")
        self.path, self.owner, self.theirs, self.ours = path, owner, theirs, ours


class DirectoryDamaged(Exception):
    """A log directory whose own files contradict each other, or are damaged."""
