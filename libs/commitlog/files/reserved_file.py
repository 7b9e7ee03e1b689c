"""A file whose space is taken in advance, for the one write without which a full disk cannot be emptied.

What shortens a log must be on disk before anything goes (see `LOG_START_OFFSETS`), and a full disk has no room for even that. So
the next version of that file has its room already. Nothing is released and taken again: whoever waits for space could be faster.
"""

import logging
import posixpath

from libs.commitlog.durable_files import replace_file, write_all
from libs.commitlog.filesystem import FileSystem, OpenFile
from libs.commitlog.sync import NO_ROOM

log = logging.getLogger(__name__)

SPARE_SUFFIX = ".spare"
SPARE_BYTES_MIN = 65_536


class SpareRoom:
    """For one file, replaced by `replace`. Used by one thread at a time."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs, self._path, self._spare = fs, path, path + SPARE_SUFFIX
        self._bytes = SPARE_BYTES_MIN

    def keep(self) -> None:
        """Makes sure that there is room, if there is any. Costs one open and one call when there is."""
        try:
            file = OpenFile(self._fs, self._fs.open_append(self._spare, create=not self._fs.exists(self._spare)))
            self._fs.reserve(file.fd, 0, self._bytes)
        except OSError as error:
            log.warning("no spare room for %s: %s", self._path, error)

    def replace(self, content: bytes) -> None:
        """As `replace_file`, on a full disk too. Raises OSError."""
        self._bytes = max(self._bytes, 2 * len(content))
        try:
            replace_file(self._fs, self._path, content)
        except OSError as error:
            if error.errno not in NO_ROOM or not self._fs.exists(self._spare):
                raise
            self._replace_by_the_spare(content)
        self.keep()

    def _replace_by_the_spare(self, content: bytes) -> None:
        file = OpenFile(self._fs, self._fs.open_append(self._spare, create=False))
        write_all(self._fs, file.fd, content)
        self._fs.truncate(file.fd, len(content))  # gives back what is not needed, and what an earlier attempt left
        self._fs.fdatasync(file.fd)
        self._fs.rename(self._spare, self._path)
        self._fs.fsync_directory(posixpath.dirname(self._path))
