"""What a process has open, by its descriptors."""

import contextlib
import os
from pathlib import Path


def open_files(pid: int) -> list[str]:
    """The paths of its files, and `socket:[inode]` of its sockets. A descriptor that is closed meanwhile is left out."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return found
