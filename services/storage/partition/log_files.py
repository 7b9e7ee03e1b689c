"""The environment of an open log: files, the registry of segment files, the clock."""

from typing import NamedTuple

from libs.clock import Clock
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.segments.segment import FileRegistry


class LogFiles(NamedTuple):
    """One for a node."""

    fs: FileSystem
    registry: FileRegistry
    clock: Clock
