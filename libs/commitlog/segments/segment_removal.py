"""Segments that left their log: renamed first, removed when readers had their time (Kafka's file.delete.delay.ms).

Readers that hold a descriptor keep the bytes. A crash at any point leaves nothing that comes back: the log's start was on disk
before the first name changed, and opening a log removes what lies before its start or is called `.deleted`.
"""

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.file_names import DELETED, segment_files
from libs.commitlog.filesystem import FileSystem


class RetiredSegments(NamedTuple):
    directory: str
    base_offsets: tuple[int, ...]

    def rename(self, fs: FileSystem) -> list[str]:
        """Blocks. Returns the new names, for `remove_retired`. Raises OSError, and may then have renamed some."""
        renamed = []
        for base_offset in self.base_offsets:
            for path in reversed(segment_files(fs, self.directory, base_offset)):  # the `.log` first: it needs its indexes
                fs.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        fs.fsync_directory(self.directory)
        return renamed


def remove_retired(fs: FileSystem, paths: Sequence[str]) -> None:
    """Blocks. Those that are gone already, with their partition perhaps, are no trouble. Raises OSError."""
    for path in paths:
        if fs.exists(path):
            fs.unlink(path)
    for directory in {posixpath.dirname(path) for path in paths}:
        if fs.exists(directory):
            fs.fsync_directory(directory)
