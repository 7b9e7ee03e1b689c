"""Files that leave the page cache, so that the next read waits for the disk."""

import os
from collections.abc import Iterable
from pathlib import Path


def drop_cached(directories: Iterable[Path]) -> None:
    """Writes the folders' files back, and takes them out of the page cache. Pages that a process has mapped and touched stay."""
    for directory in directories:
        for path in directory.iterdir():
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue  # removed meanwhile
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
