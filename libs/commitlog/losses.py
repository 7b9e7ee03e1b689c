"""What a log has lost of what was synced: reason enough not to open it, until somebody accepts the loss.

A partition that is not opened serves nobody, but what is left of it stays as it is, and a replica may have the rest. Whoever
knows better leaves the file `accept-loss` in its directory (`python -m libs.commitlog accept-loss DIR`): then the log opens with
what is there, every byte is read, what cannot be read is cut, and offsets that were given are not given again. A sync round that
covers all that removes the file.
"""

import logging

from libs.commitlog.errors import LogDamaged
from libs.commitlog.filesystem import FileSystem, OpenFile

log = logging.getLogger(__name__)

ACCEPTED = "accept-loss"


class Losses:
    """Of one log that is being opened."""

    def __init__(self, directory: str, *, accepted: bool) -> None:
        self._directory, self.accepted = directory, accepted
        self.synced_to = 0
        """Everything before this offset was on disk once. Nobody may cut there."""

    def found(self, what: str) -> None:
        """Raises LogDamaged unless it is accepted."""
        if not self.accepted:
            raise LogDamaged(f"{self._directory}: {what}")
        log.warning("%s: loss accepted: %s", self._directory, what)

    def ends_at(self, offset: int, path: str, position: int) -> None:
        """Nothing of the log is whole from `offset` on: it ends in this file, or is damaged there."""
        if offset < self.synced_to:
            name = path.removeprefix(f"{self._directory}/")
            self.found(f"{name} is whole up to byte {position} only: offsets {offset} to {self.synced_to - 1} were synced")


def accept(fs: FileSystem, directory: str) -> None:
    """On the disk when this returns. A directory that is gone is made: what was in it is lost. Raises OSError."""
    fs.make_directories(directory)
    path = f"{directory}/{ACCEPTED}"
    if not fs.exists(path):
        mark = OpenFile(fs, fs.open_append(path, create=True))
        fs.fdatasync(mark.fd)
    fs.fsync_directory(directory)
    fs.fsync_directory(directory.rpartition("/")[0] or "/")
