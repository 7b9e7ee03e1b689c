"""Segment files of a leader on the same host. Its follower reads them in place, so that the bytes pass through no socket.

A pull's answer then names ranges of files, and each file is opened once, with OPEN_FILE. A range holds the same bytes while
anybody has its file open, also when the leader has deleted it. A range that is not open yet, or not in the page cache, is pulled
again as bytes: the leader has threads that wait for its disk.

A file is known by (the leader's incarnation, file id). A deleted one takes its space until its last descriptor closes, so idle
files are closed.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

from libs.rpc.client.rpc_client import Response, RpcClient
from libs.rpc.contracts.storage import OPEN_FILE, FileRange, OpenFile, OpenFileReply
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.transport.descriptors import close_all

FILES_MAX = 128
IDLE_S = 30.0
OPEN_S_MAX = 5.0
KEPT_BYTES = 1 << 20

FileKey = tuple[int, int]
"""(incarnation, file id)"""


class LeaderFiles:
    """The segment files of one leader. The result of `read` is overwritten by the next `read`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client: RpcClient | None = None
        self._files: OrderedDict[FileKey, int] = OrderedDict()
        self._opening: dict[FileKey, None] = {}
        self._read_lately: set[FileKey] = set()
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._missed = False

    def __len__(self) -> int:
        return len(self._files)

    @property
    def descriptors(self) -> Sequence[int]:
        """The open descriptors, the least recently used first."""
        return tuple(self._files.values())

    def use_client(self, client: RpcClient | None) -> None:
        """Opens files over this connection from now on, and closes those of the former one."""
        self._client = client
        self._opening.clear()
        self._missed = False
        close_all(self._files.values())
        self._files.clear()
        self._read_lately.clear()
        self._buffer = bytearray()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def incarnation(self) -> int:
        """The incarnation of the connected leader, -1 without one."""
        peer = self._client.peer if self._client is not None else None
        return peer.incarnation if peer is not None else -1

    def wants_bytes(self) -> bool:
        """Whether the next pull asks for bytes: no descriptor can be passed, or the last answer could not be read."""
        missed, self._missed = self._missed, False
        return missed or self._client is None or not self._client.address.startswith("unix:")

    def read(self, incarnation: int, ranges: Sequence[FileRange]) -> memoryview | None:
        """The bytes of all ranges in an answer of that incarnation. None: they must be pulled as bytes, see `wants_bytes`."""
        length = sum([file_range.length for file_range in ranges])
        if length > len(self._buffer):
            self._buffer = bytearray(max(length, min(2 * length, KEPT_BYTES)))
        view, at = memoryview(self._buffer)[:length], 0
        for file_range in ranges:
            if not self._read_range((incarnation, file_range.file_id), file_range, view[at : at + file_range.length]):
                self._missed = True
                return None
            at += file_range.length
        if len(self._buffer) > KEPT_BYTES:
            self._buffer = bytearray()
        return view

    def _read_range(self, key: FileKey, wanted: FileRange, view: memoryview) -> bool:
        descriptor = self._files.get(key)
        if descriptor is None:
            self._open(key)
            return False
        self._files.move_to_end(key)
        self._read_lately.add(key)
        try:
            return os.preadv(descriptor, (view,), wanted.position, os.RWF_NOWAIT) == wanted.length
        except OSError:  # EAGAIN, or a file system without RWF_NOWAIT
            return False

    # -- opening and closing ------------------------------------------------------------------------------------------------

    def _open(self, key: FileKey) -> None:
        client = self._client
        if client is None or key in self._opening or key[0] != self.incarnation:
            return
        self._opening[key] = None
        try:
            client.send(OPEN_FILE, OpenFile(key[1]), (), partial(self._opened, client, key), timeout_s=OPEN_S_MAX)
        except RpcFailure:
            del self._opening[key]

    def _opened(self, client: RpcClient, key: FileKey, outcome: Response | Exception) -> None:
        if isinstance(outcome, Exception):
            if client is self._client:
                self._opening.pop(key, None)
            return
        try:
            exists = unpack(OpenFileReply, outcome.body).exists
        except ContractError:
            exists = False
        is_passed = exists and len(outcome.descriptors) == 1
        if exists and not is_passed and client is self._client:
            self._opening.pop(key, None)  # this process has no free descriptor; a later read asks again
        # The leader restarted meanwhile, and the same id is another file there.
        if not is_passed or client is not self._client or key[0] != self.incarnation:
            close_all(outcome.descriptors)
            return
        self._opening.pop(key, None)
        self._files[key] = outcome.descriptors[0]
        self._read_lately.add(key)
        while len(self._files) > FILES_MAX:
            os.close(self._files.popitem(last=False)[1])
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        for key in [key for key in self._files if key not in self._read_lately]:
            os.close(self._files.pop(key))
        self._read_lately.clear()
        if self._files:
            self._timer = self._loop.call_later(IDLE_S, self._close_idle)
