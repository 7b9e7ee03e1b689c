"""The `.log` files of this process, each with a number by which others name it (RPC file ranges, passed descriptors)."""

import itertools
from weakref import WeakValueDictionary

from libs.commitlog.filesystem import FileSystem, OpenFile


class FileRegistry:
    """Numbers the segment files of this process, so that others can name one; a file that is gone is not found."""

    def __init__(self) -> None:
        self._files: WeakValueDictionary[int, SegmentFile] = WeakValueDictionary()
        self._numbers = itertools.count(1)  # logs open in several threads, and `next` is atomic

    def add(self, file: "SegmentFile") -> int:
        file_id = next(self._numbers)
        self._files[file_id] = file
        return file_id

    def remove(self, file: "SegmentFile") -> None:
        """Nobody finds it any more; descriptors that were handed out stay good."""
        self._files.pop(file.file_id, None)

    def get(self, file_id: int) -> "SegmentFile | None":
        return self._files.get(file_id)


class SegmentFile:
    """A `.log` file. Opens when it is first read; its inode is never written twice, so its pages may be sent at leisure."""

    __slots__ = ("__weakref__", "_filesystem", "_open", "base_offset", "file_id", "path")

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, registry: FileRegistry) -> None:
        self._filesystem = filesystem
        self._open: OpenFile | None = None
        self.path = path
        self.base_offset = base_offset
        self.file_id = registry.add(self)

    @property
    def handle(self) -> OpenFile:
        if self._open is None:
            self._open = OpenFile(self._filesystem, self._filesystem.open_append(self.path, create=False))
        return self._open

    @property
    def fd(self) -> int:
        """For use at once: the file may close when this object goes."""
        return self.handle.fd

    def create(self) -> None:
        self._open = OpenFile(self._filesystem, self._filesystem.open_append(self.path, create=True))

    def open_readonly(self) -> int:
        """A new descriptor, which the caller closes."""
        return self._filesystem.reopen_read(self.handle.fd)
