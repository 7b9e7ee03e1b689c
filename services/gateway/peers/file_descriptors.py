"""Read-only descriptors of segment files, passed by storage nodes on the same host: a bounded least-recently-used table.

A file is known by (node id, incarnation, file id). It stays open while any answer still sends from it, also after it was evicted
or deleted: deleting unlinks the name, and the descriptor goes on reading the same, never rewritten bytes. Since a deleted file
takes its space until its last descriptor closes, those that nobody reads any more are closed after a while.
"""

import asyncio
import mmap
import os
from collections import OrderedDict

from libs.rpc.contracts.storage import OPEN_FILE, OpenFile, OpenFileReply
from libs.rpc.schema import unpack
from services.gateway.nodes import StorageNode

OPEN_S_MAX = 5.0
MADV_POPULATE_READ = 22  # not in `mmap` yet

FileKey = tuple[int, int, int]
"""(node id, incarnation, file id)"""


class FileGone(Exception):
    """The node deleted the file meanwhile: fetch again."""


class OpenedFile:
    """A descriptor and how many answers are sending from it."""

    __slots__ = ("_mapping", "descriptor", "evicted", "first_timestamp", "read_lately", "users")

    def __init__(self, descriptor: int) -> None:
        self._mapping: mmap.mmap | None = None
        self.descriptor = descriptor
        self.users = 0
        self.evicted = False
        self.read_lately = True
        self.first_timestamp: int | None = None
        """Of a time index: where a search in it begins to guess. None: not looked at."""

    def mapped(self, start: int, end: int) -> mmap.mmap | None:
        """The file's first `end` bytes at least, of which those from `start` on may be touched at once. None if it is shorter.

        Raises OSError: it takes a descriptor; and the kernel is asked to bring in the range, for it answers with an error where a
        touch would end the process: a sector that cannot be read, a file that somebody cut. EINVAL: a kernel before 5.14.
        """
        mapping = self._mapping
        if mapping is None or len(mapping) < end:
            size = os.fstat(self.descriptor).st_size
            if size < end:
                return None
            mapping = self._mapping = mmap.mmap(self.descriptor, size, access=mmap.ACCESS_READ)
        first = start - start % mmap.PAGESIZE
        mapping.madvise(MADV_POPULATE_READ, first, end - first)
        return mapping

    def release(self) -> None:
        self.users -= 1
        if self.evicted and not self.users:
            self._close()

    def evict(self) -> None:
        self.evicted = True
        if not self.users:
            self._close()

    def _close(self) -> None:
        self._mapping = None
        os.close(self.descriptor)


class Files:
    """`pinned` or `open` hand out a file with one user more; each must be answered by one `release`.

    One that was not read for `idle_s` closes within as long again.
    """

    def __init__(self, files_max: int, idle_s: float = 30.0) -> None:
        self._files: OrderedDict[FileKey, OpenedFile] = OrderedDict()
        self._opening: dict[FileKey, asyncio.Task[OpenedFile]] = {}
        self._files_max = files_max
        self._idle_s = idle_s
        self._timer = asyncio.get_running_loop().call_later(idle_s, self._close_idle)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, key: FileKey) -> bool:
        return key in self._files

    def pinned(self, key: FileKey) -> OpenedFile | None:
        """None: not open yet, `open` it."""
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            file.read_lately = True
            file.users += 1
        return file

    async def open(self, node: StorageNode, key: FileKey) -> OpenedFile:
        """Raises FileGone, or RpcFailure when the node does not answer."""
        if key not in self._files:
            await asyncio.shield(self.open_soon(node, key))
        file = self._files.get(key)
        if file is not None:
            file.users += 1
        else:
            raise FileGone(f"{key} was evicted while it was opened")
        return file

    def open_soon(self, node: StorageNode, key: FileKey) -> "asyncio.Task[OpenedFile]":
        """For whoever comes next. A task of its own: whoever asked first may hang up, the others still want the file."""
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.get_running_loop().create_task(self._open(node, key))
            opening.add_done_callback(lambda task: self._opened(key, task))
        return opening

    async def _open(self, node: StorageNode, key: FileKey) -> OpenedFile:
        response = await node.client.call(OPEN_FILE, OpenFile(key[2]), timeout_s=OPEN_S_MAX)
        found = unpack(OpenFileReply, response.body).found and len(response.descriptors) == 1
        # It restarted meanwhile: the same id is another file there, and would give the client another partition's bytes.
        if not found or node.incarnation != key[1]:
            for descriptor in response.descriptors:
                os.close(descriptor)
            raise FileGone(str(key))
        file = self._files[key] = OpenedFile(response.descriptors[0])
        while len(self._files) > self._files_max:
            self._files.popitem(last=False)[1].evict()
        return file

    def _opened(self, key: FileKey, task: "asyncio.Task[OpenedFile]") -> None:
        del self._opening[key]
        if not task.cancelled():
            task.exception()  # whoever waited was told

    def forget(self, node_id: int, incarnation: int) -> None:
        """Drops the files of every other incarnation of this node."""
        for key in [key for key in self._files if key[0] == node_id and key[1] != incarnation]:
            self._files.pop(key).evict()

    def _close_idle(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._close_idle)
        for key, file in list(self._files.items()):
            if not file.read_lately:
                self._files.pop(key).evict()
            file.read_lately = False

    def close(self) -> None:
        self._timer.cancel()
        for opening in self._opening.values():
            opening.cancel()
        while self._files:
            self._files.popitem()[1].evict()
