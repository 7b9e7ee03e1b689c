"""A fake storage node that speaks the real RPC and keeps its requests."""

import os
from pathlib import Path

from libs.rpc.contracts.log_layout import LOG_LAYOUT, LogLayoutReply
from libs.rpc.contracts.storage import (
    APPEND,
    FETCH,
    LIST_OFFSETS,
    OPEN_FILE,
    Append,
    Appended,
    AppendReply,
    Fetch,
    Fetched,
    FetchReply,
    FileRange,
    ListedOffset,
    ListOffsets,
    ListOffsetsReply,
    OpenFile,
    OpenFileReply,
)
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Call, Hello, Peer, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.telemetry.tracing.rpc_context import Indexed, unpack_contexts
from libs.wire.errors import ErrorCode


class FakeNode:
    """It gives appends the next offset of their partition. `holding`: calls are kept in `held`, and answered by `release`.

    A fetch is answered with all of `file`, or parked if there is none.
    """

    def __init__(self, node_id: int, directory: Path) -> None:
        self.node_id = node_id
        self.incarnation = 1
        self.address = f"unix:{directory}/n{node_id}"
        self.holding = False
        self.held: list[Call] = []
        self.appends: list[Append] = []
        self.append_traces: list[list[Indexed]] = []  # the contexts of each
        self.fetch_waited_ms = 0  # in answers to fetches without records
        self.stored: list[tuple[int, bytes]] = []  # (partition, batch) in the order of arrival
        self.refuse_with = 0
        self.refused_batches: frozenset[bytes] = frozenset()  # with CORRUPT_MESSAGE
        self.hint = (-1, -1)  # leader and its epoch, for refusals
        self.in_log = False  # for refusals
        self.file: Path | None = None
        self.file_gone = False
        self.inline = False
        self.aborted: tuple[tuple[int, int], ...] = ()  # in each answer to a reader of committed records
        self.aborted_ahead: tuple[tuple[int, int, int], ...] | None = None  # in the same answers; None: nobody reads on
        self.backlog: dict[int, int] = {}  # offset → position in `file`, from which fetches are answered
        self.fetches: list[Fetch] = []
        self.holding_fetches = False
        self.fetch_result: Fetched | None = None  # the result of every partition, instead of records
        self.parked_fetches: list[Call] = []
        self.asked_by: Peer | None = None
        self.cancelled = 0
        self.opened = 0
        self.log_layout: LogLayoutReply | None = None  # None: the method is unknown
        self.log_layouts = 0
        self.named_files: dict[int, Path] = {}  # files by the ids in a log layout
        self.lookups = 0
        self.holding_lookups = False
        self.held_lookups: list[Call] = []
        self.lookup_errors: list[int] = []  # of the next lookups, in their order
        self.stable_to = -1  # the end of the committed part of `file`; -1: all of it
        self._ends: dict[int, int] = {}
        self._server: RpcServer | None = None

    async def start(self) -> None:
        hello = Hello("storage", self.node_id, self.incarnation, "test", 1)
        methods = {
            APPEND: self._append,
            FETCH: self._fetch,
            OPEN_FILE: self._open,
            LOG_LAYOUT: self._answer_log_layout,
            LIST_OFFSETS: self._list_offsets,
        }
        self._server = RpcServer(hello, methods, transport=SocketTransport())
        await self._server.listen(self.address)

    async def listen(self, address: str) -> str:
        """Listens at one more address, and returns the actual address."""
        assert self._server is not None
        return await self._server.listen(address)

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.close(drain_s=0)
        self.held.clear()

    def begin_to_stop(self) -> None:
        """Refuses new requests. Accepted ones may still be answered."""
        assert self._server is not None
        self._server.closing = True

    def release(self, index: int) -> None:
        """Answers the held append at `index`."""
        self._answer(self.held.pop(index))

    def _append(self, call: Call) -> None:
        request = unpack(Append, call.body)
        self.appends.append(request)
        self.append_traces.append(unpack_contexts(call.trace))
        position = 0
        for part in request.partitions:
            batch = bytes(call.payload[position : position + part.length])
            position += part.length
            if not self.refuse_with and batch not in self.refused_batches:
                self.stored.append((part.partition, batch))
        if self.holding:
            self.held.append(call)
        else:
            self._answer(call)

    def _answer(self, call: Call) -> None:
        rows = []
        position = 0
        for part in unpack(Append, call.body).partitions:
            batch = bytes(call.payload[position : position + part.length])
            position += part.length
            if batch in self.refused_batches:
                rows.append(Appended(ErrorCode.CORRUPT_MESSAGE))
                continue
            if self.refuse_with:
                leader, epoch = self.hint
                rows.append(Appended(self.refuse_with, leader=leader, leader_epoch=epoch, in_log=self.in_log))
                continue
            offset = self._ends.get(part.partition, 0)
            self._ends[part.partition] = offset + 1
            rows.append(Appended(0, offset, -1, 0))
        call.reply(AppendReply(tuple(rows)))

    def _fetch(self, call: Call) -> None:
        self.asked_by = call.peer
        request = unpack(Fetch, call.body)
        self.fetches.append(request)
        if self.file is None or self.holding_fetches:
            self.parked_fetches.append(call)
            call.on_cancel(self._count_cancelled)
            return
        self.answer_fetch(call)

    def answer_fetch(self, call: Call) -> None:
        request = unpack(Fetch, call.body)
        assert self.file is not None
        size = self.file.stat().st_size
        if self.backlog:
            self._fetch_on(call, request, size)
            return
        if self.fetch_result is not None:
            call.reply(FetchReply(tuple(self.fetch_result for _ in request.partitions), self.fetch_waited_ms))
            return
        if request.inline or self.inline:
            data = self.file.read_bytes()
            rows = [Fetched(0, 9, 9, 0, inline_length=size) for _ in request.partitions]
            call.reply(FetchReply(tuple(rows)), [data] * len(rows))
            return
        # Two ranges, as at the end of a segment.
        ranges = (FileRange(1, 0, size // 3), FileRange(1, size // 3, size - size // 3))
        call.reply(FetchReply(tuple(Fetched(0, 9, 9, 0, ranges) for _ in request.partitions)))

    def _fetch_on(self, call: Call, request: Fetch, size: int) -> None:
        (wanted,) = request.partitions
        if request.isolation and self.stable_to >= 0:
            size = self.stable_to
        position = self.backlog.get(wanted.fetch_offset, size)
        if position >= size:
            self.parked_fetches.append(call)
            return
        first = next((later - position for later in self.backlog.values() if later > position), size - position)
        ranges = (FileRange(1, position, min(max(request.max_bytes, first), size - position)),)
        end = len(self.backlog)
        if not request.isolation:
            result = Fetched(0, end, end, 0, ranges, readable_to=size)
        elif self.aborted_ahead is None:
            result = Fetched(0, end, end, 0, ranges, aborted=self.aborted)
        else:
            ahead = self.aborted_ahead
            result = Fetched(0, end, end, 0, ranges, aborted=self.aborted, readable_to=size, aborted_ahead=ahead)
        call.reply(FetchReply((result,)))

    def _open(self, call: Call) -> None:
        file_id = unpack(OpenFile, call.body).file_id
        assert file_id == 1 or file_id in self.named_files
        file = self.named_files.get(file_id, self.file)
        self.opened += 1
        if self.file_gone or file is None:
            call.reply(OpenFileReply(False))
            return
        descriptor = os.open(file, os.O_RDONLY)
        try:
            call.reply(OpenFileReply(True), descriptors=[descriptor])
        finally:
            os.close(descriptor)

    def _answer_log_layout(self, call: Call) -> None:
        self.log_layouts += 1
        if self.log_layout is None:
            call.fail(int(ErrorCode.UNSUPPORTED_VERSION), "no such method")
        else:
            call.reply(self.log_layout)

    def _list_offsets(self, call: Call) -> None:
        self.lookups += 1
        call.on_cancel(self._count_cancelled)
        if self.holding_lookups:
            self.held_lookups.append(call)
            return
        wanted = unpack(ListOffsets, call.body).partitions
        if self.lookup_errors:
            error = self.lookup_errors.pop(0)
            call.reply(ListOffsetsReply(tuple(ListedOffset(error) for _ in wanted)))
            return
        call.reply(ListOffsetsReply(tuple(ListedOffset(0, 77, p.timestamp, 0) for p in wanted)))

    def _count_cancelled(self) -> None:
        self.cancelled += 1
