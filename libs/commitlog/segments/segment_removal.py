"""Segments that left their log: renamed first, and removed when readers had time to finish (Kafka's file.delete.delay.ms).

Readers that hold a descriptor keep the bytes. After a crash at any point no removed segment comes back: the log's start was on
disk before the first rename, and an opening removes segments before its start and `.deleted` files.
"""

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.files.file_names import DELETED, segment_files
from libs.commitlog.files.filesystem import FileSystem


class RetiredSegments(NamedTuple):
    directory: str
    base_offsets: tuple[int, ...]

    def rename(self, fs: FileSystem) -> list[str]:
        """Renames the files of removed segments. It blocks, and returns the new names, for `remove_retired`. Raises OSError, and
        may then have renamed some."""
        renamed = []
        for base_offset in self.base_offsets:
            # the `.log` comes first, since it needs its indexes
            for path in reversed(segment_files(fs, self.directory, base_offset)):
                fs.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        fs.fsync_directory(self.directory)
        return renamed


def remove_retired(fs: FileSystem, paths: Sequence[str]) -> None:
    """Removes the files. It blocks. Files that are gone already, perhaps with their partition, are passed over. Raises
    OSError."""
    for path in paths:
        if fs.exists(path):
            fs.unlink(path)
    for directory in {posixpath.dirname(path) for path in paths}:
        if fs.exists(directory):
            fs.fsync_directory(directory)
