"""Read-only descriptors of segment files, passed by storage nodes on the same host: a bounded least-recently-used table.

Node id, incarnation and file id name a file. It stays open while any answer still sends from it, even after its eviction or
deletion. Deletion only unlinks the name: the descriptor goes on reading the same bytes, which are never rewritten. A deleted file
takes disk space until its last descriptor closes, so files that are not read any more are closed after a while.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from libs.rpc.contracts.storage import OPEN_FILE, OpenFile, OpenFileReply
from libs.rpc.files.passed_files import Mapping, OsPassedFiles, PassedFiles
from libs.rpc.messages.schema import unpack
from libs.telemetry.limited_lines import LimitedLines
from services.gateway.peers.storage_nodes import StorageNode

log = logging.getLogger("network")

OPEN_S_MAX = 5.0

FileKey = tuple[int, int, int]
"""(node id, incarnation, file id)"""


NOT_OPENED_LOG_S = 10.0
EVICTED_FACTOR = 2
"""The files that are open at most, for each place in the table: answers to slow clients hold evicted ones."""


class FileGone(Exception):
    """The node has deleted the file meanwhile, or a process has no descriptor for it. The Fetch is sent again, for the bytes
    themselves."""


class OpenedFile:
    """A descriptor and the number of answers that send from it."""

    __slots__ = ("_closed", "_mapping", "_passed", "descriptor", "evicted", "first_timestamp", "read_lately", "users")

    def __init__(self, descriptor: int, passed: PassedFiles, closed: Callable[[], None]) -> None:
        self._passed = passed
        self._mapping: Mapping | None = None
        self._closed = closed
        self.descriptor = descriptor
        self.users = 0
        self.evicted = False
        self.read_lately = True
        self.first_timestamp: int | None = None
        """Of a time index: its first timestamp, where a search begins to guess. None: not read yet."""

    def read_cached(self, position: int, length: int) -> bytearray | None:
        """See `PassedFiles.read_cached`."""
        return self._passed.read_cached(self.descriptor, position, length)

    def is_cached(self, position: int, length: int) -> bool:
        """Whether the range is in the page cache. Raises OSError."""
        return self._passed.is_cached(self.descriptor, position, length)

    def mapped(self, start: int, end: int) -> Mapping | None:
        """See `PassedFiles.mapped`. Raises OSError."""
        mapping = self._passed.mapped(self.descriptor, self._mapping, start, end)
        if mapping is not None:
            self._mapping = mapping
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
        self._passed.close(self.descriptor)
        self._closed()


class Files:
    """The table of open files. `pinned` and `open` add one user to a file; each needs one `release`.

    A file that was not read for `idle_s` closes within as long again. Answers to slow clients may keep `files_max` evicted files
    open, and no more.
    """

    def __init__(self, files_max: int, idle_s: float = 30.0, passed: PassedFiles | None = None) -> None:
        self.passed = passed if passed is not None else OsPassedFiles()
        self._files: OrderedDict[FileKey, OpenedFile] = OrderedDict()
        self._opening: dict[FileKey, asyncio.Task[OpenedFile]] = {}
        self._files_max = files_max
        self.opened_now = 0
        """Files in the table, and evicted ones that answers still send from."""
        self._idle_s = idle_s
        self.not_opened_lines = LimitedLines(log, NOT_OPENED_LOG_S, asyncio.get_running_loop())
        self._timer = asyncio.get_running_loop().call_later(idle_s, self._close_idle)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def in_use(self) -> bool:
        """Whether any file is read from right now."""
        return any(file.users for file in self._files.values())

    @property
    def opening(self) -> bool:
        """Whether any file is being opened."""
        return bool(self._opening)

    def __contains__(self, key: FileKey) -> bool:
        return key in self._files

    def pinned(self, key: FileKey) -> OpenedFile | None:
        """The file with one more user. None: it is not open yet; `open` it."""
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            file.read_lately = True
            file.users += 1
        return file

    async def open(self, node: StorageNode, key: FileKey) -> OpenedFile:
        """The file with one more user. Raises FileGone, and RpcFailure when the node does not answer."""
        if key not in self._files:
            await asyncio.shield(self.open_soon(node, key))
        file = self._files.get(key)
        if file is not None:
            file.users += 1
        else:
            raise FileGone(f"{key} was evicted before it was used")
        return file

    def open_soon(self, node: StorageNode, key: FileKey) -> "asyncio.Task[OpenedFile]":
        """Begins to open a file. The task belongs to no request, since the first one may hang up while others still want the
        file."""
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.get_running_loop().create_task(self._open(node, key))
            opening.add_done_callback(lambda task: self._opened(key, task))
        return opening

    async def _open(self, node: StorageNode, key: FileKey) -> OpenedFile:
        if self.opened_now + len(self._opening) > EVICTED_FACTOR * self._files_max:
            raise FileGone(f"{key}: slow clients hold too many files open")
        response = await node.client.call(OPEN_FILE, OpenFile(key[2]), timeout_s=OPEN_S_MAX)
        exists = unpack(OpenFileReply, response.body).exists
        if exists and not response.descriptors:
            raise FileGone(f"{key}: this process has no free descriptor")
        # After a restart of the node, the same id names another file. The client would get another partition's bytes.
        if not exists or len(response.descriptors) != 1 or node.incarnation != key[1]:
            for descriptor in response.descriptors:
                self.passed.close(descriptor)
            raise FileGone(str(key))
        file = self._files[key] = OpenedFile(response.descriptors[0], self.passed, self._closed)
        self.opened_now += 1
        while len(self._files) > self._files_max:
            self._files.popitem(last=False)[1].evict()
        return file

    def _closed(self) -> None:
        self.opened_now -= 1

    def _opened(self, key: FileKey, task: "asyncio.Task[OpenedFile]") -> None:
        del self._opening[key]
        if not task.cancelled():
            task.exception()  # the tasks that awaited it have raised it already

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
