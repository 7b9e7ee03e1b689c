"""The bound on the descriptors of all segments together. The least recently used files close first.

A segment owns no descriptor. It asks for a file, which stays open while any holder has it. This table only drops its own
reference, so a reader in another thread, or a sync round, keeps its file.

Rule: dirty files stay open. The kernel reports a failed write-back to the descriptors that were open then, and to later ones only
if it still remembers. So a writer holds the descriptor from before the first byte until a sync has covered the last
(`SegmentFile.for_writing`, `IndexEntries`). Only sync rounds free such files, and `crowded` asks for one.
"""

import errno
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from libs.commitlog.files.filesystem import Buffer, FileSystem, OpenFile
from libs.commitlog.files.page_cache import must_not_wait, off_loop

_DEFAULT_MAX = 3000
NO_BLOCK = (-1, 0, b"")
_OPEN_FILES_MAX = 30_000  # a larger number is not worth the kernel's memory


def open_files_max(descriptors: int) -> int:
    """The number of descriptors that segments may use, of those that a process may have. Sockets and small files need the
    rest."""
    return min(max(descriptors - max(descriptors // 4, 128), 16), _OPEN_FILES_MAX)


class _CountedFile(OpenFile):
    __slots__ = ("_alive",)

    def __init__(self, filesystem: FileSystem, fd: int, alive: list[None]) -> None:
        super().__init__(filesystem, fd)
        self._alive = alive

    def __del__(self) -> None:
        super().__del__()
        self._alive.pop()


class OpenFiles:
    """The open files of all segments of a process. Any thread may use it. Raises OSError(EMFILE) rather than hold more than
    `capacity`."""

    def __init__(self, capacity: int = _DEFAULT_MAX) -> None:
        self.capacity = capacity
        self._keys = itertools.count()
        self._cached: OrderedDict[int, OpenFile] = OrderedDict()
        # one entry for each open file: appending and popping are atomic, adding and subtracting are not
        self._alive: list[None] = []
        self._lock = threading.Lock()
        self.block: tuple[int, int, Buffer] = NO_BLOCK
        """The last block that was read of an index: its key, its first entry, and the bytes. Any thread may replace it."""

    def __len__(self) -> int:
        """The number of open files, cached here or held elsewhere."""
        return len(self._alive)

    @property
    def crowded(self) -> bool:
        """Whether most open files are held by writers that wait for a sync. A sync round would free them."""
        return 2 * (len(self._alive) - len(self._cached)) > self.capacity

    @property
    def is_nearly_full(self) -> bool:
        """Whether writers hold so many files that the files in use may need the rest. Then no new file is begun."""
        return 3 * (len(self._alive) - len(self._cached)) > 2 * self.capacity

    def new_key(self) -> int:
        """A key for a file that may be cached here. Call `forget` when its owner ends."""
        return next(self._keys)

    def file(self, key: int) -> OpenFile | None:
        handle = self._cached.get(key)
        if handle is not None:
            try:
                self._cached.move_to_end(key)
            except KeyError:  # another thread has dropped it meanwhile
                pass
        return handle

    def open(self, fs: FileSystem, path: str, owner: Hashable, *, create: bool = False) -> OpenFile:
        """Opens a file that is not cached here. It closes with its last holder. Raises OSError, and NotInPageCache within a
        lookup that must not wait.

        Rule: each file has its own `owner`. A thread may have begun to open the path for an earlier file of that name, which a
        cleaned segment or a new topic has replaced since. Its descriptor is of no use to the file that has the name now.
        """
        if must_not_wait() and not create:
            handle = self._counted(fs, lambda: fs.open_cached(path))
            return handle or off_loop(path, ("open", path, owner), lambda: self._open(fs, path, create=False))
        return self._open(fs, path, create=create)

    def _open(self, fs: FileSystem, path: str, *, create: bool) -> OpenFile:
        handle = self._counted(fs, lambda: fs.open_append(path, create=create))
        assert handle is not None
        return handle

    def _counted(self, fs: FileSystem, opening: Callable[[], int | None]) -> OpenFile | None:
        self._take_room()
        fd: int | None = None
        try:
            fd = opening()
        finally:
            if fd is None:
                self._alive.pop()
        return _CountedFile(fs, fd, self._alive) if fd is not None else None

    def keep(self, key: int, handle: OpenFile) -> None:
        """Caches a file until others were used more recently. A holder of a dirty file removes it from here for that time."""
        self._cached[key] = handle
        self._cached.move_to_end(key)

    def take(self, key: int) -> OpenFile | None:
        """Removes a file from the cache and returns it. The caller holds it from now on."""
        return self._cached.pop(key, None)

    def forget(self, key: int) -> None:
        self._cached.pop(key, None)

    def _take_room(self) -> None:
        with self._lock:
            while len(self._alive) >= self.capacity:
                try:
                    self._cached.popitem(last=False)
                except KeyError:
                    raise OSError(errno.EMFILE, "too many files are held open until they are synced") from None
            self._alive.append(None)
