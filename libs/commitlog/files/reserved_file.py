"""A file with space reserved in advance, for the one write without which a full disk cannot be emptied.

A new log start must be on disk before records are removed (see `LOG_START_OFFSETS`), and a full disk has no room for it. So the
next version of that file has its room already. The room is never released and taken again, since another writer could take it in
between.
"""

import logging
import posixpath

from libs.commitlog.files.durable_files import replace_file, write_all
from libs.commitlog.files.filesystem import FileSystem, OpenFile
from libs.commitlog.model.errors import NO_ROOM

log = logging.getLogger("log")

RESERVE_SUFFIX = ".spare"
RESERVED_BYTES_MIN = 65_536


class ReservedFile:
    """Room for one file, which `replace` replaces. One thread uses it at a time."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs, self._path, self._spare = fs, path, path + RESERVE_SUFFIX
        self._bytes = RESERVED_BYTES_MIN

    def keep(self) -> None:
        """Reserves the room, as far as the disk has any. Costs one open and one call when it has."""
        try:
            file = OpenFile(self._fs, self._fs.open_append(self._spare, create=not self._fs.exists(self._spare)))
            self._fs.reserve(file.fd, 0, self._bytes)
        except OSError as error:
            log.warning("no room could be reserved for %s: %s", self._path, error)

    def replace(self, content: bytes) -> None:
        """Replaces the file as `replace_file` does, on a full disk too. Raises OSError."""
        self._bytes = max(self._bytes, 2 * len(content))
        try:
            replace_file(self._fs, self._path, content)
        except OSError as error:
            if error.errno not in NO_ROOM or not self._fs.exists(self._spare):
                raise
            self._replace_with_reserve(content)
        self.keep()

    def _replace_with_reserve(self, content: bytes) -> None:
        file = OpenFile(self._fs, self._fs.open_append(self._spare, create=False))
        write_all(self._fs, file.fd, content)
        self._fs.truncate(file.fd, len(content))  # gives back unneeded room, and the rest of an earlier attempt
        self._fs.fdatasync(file.fd)
        self._fs.rename(self._spare, self._path)
        self._fs.fsync_directory(posixpath.dirname(self._path))
