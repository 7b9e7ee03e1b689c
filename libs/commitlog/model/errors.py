"""What the log tells its owner when it cannot do what was asked."""


class OffsetOutOfRange(Exception):
    """The offset lies before the log's start or after its end."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside of [{log_start_offset}, {log_end_offset}]")
        self.offset = offset


class LogWriteError(Exception):
    """An append that left nothing behind. `fatal`: the log refuses all appends until it is opened again."""

    def __init__(self, message: str, *, fatal: bool) -> None:
        super().__init__(message)
        self.fatal = fatal


class LogDamaged(Exception):
    """Bytes that were synced are not what was written. Never cut silently: a replica may have them."""


class MuchToRead(Exception):
    """Opening would read more than it may here. Nothing was changed that a crash could not have changed, too."""

    def __init__(self, total_bytes: int) -> None:
        super().__init__(total_bytes)
        self.total_bytes = total_bytes


class SyncFailed(OSError):
    """What was written may be lost, and asking again would be answered with a lie: the log directory is of no more use."""


class DirectoryLocked(Exception):
    """Another process uses the log directory."""


class DirectoryRetired(Exception):
    """An earlier process gave the log directory up, and nobody has vouched for the disk since."""


class DirectoryOfAnother(Exception):
    """The log directory is sound, and another node's or cluster's."""

    def __init__(self, path: str, owner: str, theirs: str, ours: str) -> None:
        """`owner`: cluster or node."""
        super().__init__(f"{path} belongs to another {owner}, {theirs}, not to {ours}")
        self.path, self.owner, self.theirs, self.ours = path, owner, theirs, ours


class DirectoryDamaged(Exception):
    """The log directory's own files contradict what they must say."""
