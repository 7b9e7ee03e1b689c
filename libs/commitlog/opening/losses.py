"""Losses of synced records: a log with a loss stays closed until an operator accepts it.

A partition that is not opened serves no request, but its remaining records stay as they are, and a replica may have the rest. To
accept the loss, an operator puts the file `accept-loss` into its directory (`python -m libs.commitlog accept-loss DIR`). The log
then opens with its remaining records: every byte is read, unreadable bytes are cut, and offsets are not given twice. A sync round
that covers all this removes the file.
"""

import logging

from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.model.errors import LogDamaged

log = logging.getLogger("log")

ACCEPTED = "accept-loss"


class Losses:
    """The losses of one log that is being opened."""

    def __init__(self, directory: str, *, accepted: bool) -> None:
        self._directory, self.accepted = directory, accepted
        self.synced_to = 0
        """Everything before this offset was on disk once, so the log must not be cut there."""

    def report(self, loss: str) -> None:
        """Reports a loss. Raises LogDamaged unless losses are accepted."""
        if not self.accepted:
            raise LogDamaged(f"{self._directory}: {loss}")
        log.warning("%s: loss accepted: %s", self._directory, loss)

    def ends_at(self, offset: int, path: str, position: int) -> None:
        """Reports that the log has nothing whole from `offset` on: it ends in this file, or is damaged there."""
        if offset < self.synced_to:
            name = path.removeprefix(f"{self._directory}/")
            self.report(f"{name} is whole up to byte {position} only: offsets {offset} to {self.synced_to - 1} were synced")


def accept(fs: FileSystem, directory: str) -> None:
    """Accepts losses, durably when this returns. It makes a directory that is gone: its content is lost. Raises OSError."""
    fs.make_directories(directory)
    path = f"{directory}/{ACCEPTED}"
    if not fs.exists(path):
        mark = OpenFile(fs, fs.open_append(path, create=True))
        fs.fdatasync(mark.fd)
    fs.fsync_directory(directory)
    fs.fsync_directory(directory.rpartition("/")[0] or "/")
