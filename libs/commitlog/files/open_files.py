"""How many descriptors segments hold together: bounded, the least recently used are let go of first.

A segment owns no descriptor: it asks for one, and what it was given stays open for as long as somebody holds it. Letting go here
drops only this table's hold, so a reader in another thread, or a sync round, keeps what it uses.

Rule: what is dirty stays open. A write-back that failed is told to the descriptors that were open then, and to a later one only
if the kernel still remembers; so whoever writes holds the descriptor himself from before the first byte until a sync has covered
the last (`SegmentFile.for_writing`, `IndexEntries`). Only rounds free those, which is why `crowded` asks for one.
"""

import errno
import itertools
import threading
from collections import OrderedDict

from libs.commitlog.filesystem import FileSystem, OpenFile

_DEFAULT_MAX = 3000
NO_BLOCK = (-1, 0, b"")
_OPEN_FILES_MAX = 30_000  # more are not worth the kernel's memory


def open_files_max(descriptors: int) -> int:
    """What segments may take of the descriptors that a process may have; sockets and small files need the rest."""
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
    """One per process. Used by any thread. Raises OSError(EMFILE) rather than hold more than `capacity`."""

    def __init__(self, capacity: int = _DEFAULT_MAX) -> None:
        self.capacity = capacity
        self._keys = itertools.count()
        self._kept: OrderedDict[int, OpenFile] = OrderedDict()
        self._alive: list[None] = []  # one for each that is open: appending and popping are atomic, adding and subtracting not
        self._lock = threading.Lock()
        self.block: tuple[int, int, bytes] = NO_BLOCK
        """What was last read of an index: its key, from which entry on, and the bytes. Threads may replace it."""

    def __len__(self) -> int:
        """How many are open, whoever holds them."""
        return len(self._alive)

    @property
    def crowded(self) -> bool:
        """Most of the room is not kept here but held, so by writers that wait for a sync: a round would make room."""
        return 2 * (len(self._alive) - len(self._kept)) > self.capacity

    @property
    def is_tight(self) -> bool:
        """Writers hold so much that what is written to already may come to need the rest: nobody begins another file."""
        return 3 * (len(self._alive) - len(self._kept)) > 2 * self.capacity

    def new_key(self) -> int:
        """The name of something that may be kept here; `forget` it when its owner goes."""
        return next(self._keys)

    def file(self, key: int) -> OpenFile | None:
        found = self._kept.get(key)
        if found is not None:
            try:
                self._kept.move_to_end(key)
            except KeyError:  # another thread has let go of it meanwhile
                pass
        return found

    def open(self, fs: FileSystem, path: str, *, create: bool = False) -> OpenFile:
        """Not kept here: it closes with its last holder. Raises OSError."""
        self._take_room()
        try:
            fd = fs.open_append(path, create=create)
        except BaseException:
            self._alive.pop()
            raise
        return _CountedFile(fs, fd, self._alive)

    def keep(self, key: int, handle: OpenFile) -> None:
        """Until others were used more recently. Whoever holds it because it is dirty forgets it here for so long."""
        self._kept[key] = handle
        self._kept.move_to_end(key)

    def take(self, key: int) -> OpenFile | None:
        """As `file`, for whoever holds it from now on: it is not kept here any longer."""
        return self._kept.pop(key, None)

    def forget(self, key: int) -> None:
        self._kept.pop(key, None)

    def _take_room(self) -> None:
        with self._lock:
            while len(self._alive) >= self.capacity:
                try:
                    self._kept.popitem(last=False)
                except KeyError:
                    raise OSError(errno.EMFILE, "too many files are held open until they are synced") from None
            self._alive.append(None)
