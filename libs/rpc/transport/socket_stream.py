"""One connection on a raw non-blocking socket: asyncio watches readiness, nothing else.

asyncio's own transports forbid `add_writer` and copy on partial writes; `loop.sendfile` costs 50–100 µs a call. Here one turn
is one receive, answers leave together in one `sendmsg`, and file ranges go by `os.sendfile` in their place among them.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.files.page_cache import WINDOW, is_cached
from libs.rpc.transport.descriptors import (
    ANCILLARY_SIZE,
    CLOSED_ON_EXEC,
    CUT_OFF,
    MAX_DESCRIPTORS,
    Descriptors,
    duplicate,
    received_descriptors,
)
from libs.rpc.transport.event_loop import outbox_of
from libs.rpc.transport.frame_link import LinkEnd
from libs.rpc.transport.transport import Buffer, Receiver, TlsSession

log = logging.getLogger("network")

IOV_MAX = 1024
LOW_WATER = 65_536
FAIR_SHARE = 4 << 20
"""The most bytes of one flush. After that the other connections get their turn."""
EARLY_SEND_BUFFERS = 48
"""The number of queued buffers, two to a frame, that are sent before the end of the turn. Of a hundred answers, the peer has then
read the first when the last is written."""
CLOSE_TIMEOUT_S = 5.0
LOOK_AHEAD = 1 << 20
"""The most bytes of a file range that one look at the page cache is for."""
STILL_CACHED_S = 1.0
"""How long what was in the page cache is taken to be there still: each look costs a system call for every 128 KiB."""


TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8
"""States of a connection in Linux's `tcp_info`: it was reset, and its other end has ended."""


class FileRange:
    __slots__ = ("cached_at", "cached_to", "fd", "on_sent", "position", "stop")

    def __init__(
        self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None, cached: int, now: float
    ) -> None:
        self.fd = fd
        self.position = position
        self.stop = position + length
        self.on_sent = on_sent
        self.cached_to = position + cached
        self.cached_at = now
        """When the bytes before `cached_to` were seen in the page cache."""

    def is_cached(self, window: int, now: float) -> bool:
        """Whether the next `window` bytes are in the page cache, or were `STILL_CACHED_S` ago. Raises OSError."""
        end = self.position + window
        if end <= self.cached_to and now - self.cached_at < STILL_CACHED_S:
            return True
        ahead = min(self.stop - self.position, LOOK_AHEAD)
        while not is_cached(self.fd, self.position, ahead):
            if ahead == window:
                return False
            ahead = window
        self.saw_cached(ahead, now)
        return True

    def saw_cached(self, length: int, now: float) -> None:
        self.cached_to, self.cached_at = self.position + length, now


class SocketStream:
    """See `transport.Stream`. `sends` and `receives` count system calls, so that tests and metrics can see coalescing."""

    __slots__ = (
        "_above_low_water",
        "_blocked",
        "_close_timer",
        "_cold",
        "_disks",
        "_drop_read",
        "_fd",
        "_flush_scheduled",
        "_flushing",
        "_in_turn",
        "_least",
        "_loop",
        "_lost",
        "_outbox",
        "_queue",
        "_receiver",
        "_sent_early",
        "_socket",
        "_specials",
        "_warming",
        "_warming_since",
        "bytes_sent",
        "closing",
        "disk_wait_s",
        "is_unix",
        "link",
        "on_flushed",
        "on_secured",
        "peer",
        "peer_uid",
        "pending_bytes",
        "pending_file_bytes",
        "reading",
        "receives",
        "sends",
    )

    def __init__(
        self,
        connected: socket.socket,
        *,
        peer: str,
        peer_uid: int | None,
        disks: DiskReaders,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._outbox = outbox_of(self._loop)
        self._socket = connected
        self._fd = connected.fileno()
        self._disks = disks
        self._cold: FileRange | None = None  # which a thread reads, or will
        self._drop_read: Callable[[], bool] | None = None  # of that file range
        self._receiver: Receiver | None = None
        self._queue: list[Buffer | FileRange | Descriptors] = []
        self._specials = 0  # entries in the queue that are not buffers
        self._in_turn = self._flushing = self._flush_scheduled = False
        self._sent_early = False  # since the last flush, which tells it
        self._blocked = False  # the socket is full, and watched
        self._warming = False  # a thread reads a cold file range, or will
        self._warming_since = self.disk_wait_s = 0.0
        self.reading = False
        self._least = 1  # bytes for which the kernel says that there is something to receive
        self._lost = False
        self._above_low_water = False
        self._close_timer: asyncio.TimerHandle | None = None
        self.peer = peer
        self.peer_uid = peer_uid
        self.is_unix = connected.family == socket.AF_UNIX
        self.pending_bytes = 0
        self.pending_file_bytes = 0
        self.bytes_sent = 0
        self.closing = False
        self.on_flushed: Callable[[], None] | None = None
        self.on_secured: Callable[[], None] | None = None
        self.link: LinkEnd | None = None
        self.sends = 0
        self.receives = 0

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    @property
    def tls(self) -> TlsSession | None:
        return None

    # Reading

    def pause_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self.reading and not self.closing:
            self.reading = True
            self._loop.add_reader(self._fd, self._readable)

    def receive_at_least(self, nbytes: int) -> None:
        if nbytes != self._least and not self._lost:
            self._least = nbytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, nbytes)

    def _readable(self) -> None:
        receiver = self._receiver
        assert receiver is not None
        self.receives += 1
        self._in_turn = True
        try:
            try:
                buffer = receiver.get_buffer()
                if self.is_unix:
                    nbytes, ancillary, flags, _ = self._socket.recvmsg_into([buffer], ANCILLARY_SIZE, CLOSED_ON_EXEC)
                    if ancillary or flags & CUT_OFF:
                        receiver.descriptors_received(received_descriptors(ancillary, flags))
                else:
                    nbytes = self._socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._end(error)
                return
            del buffer  # the receiver's chunk is free for reuse only when no view of it is left
            if nbytes:
                receiver.buffer_updated(nbytes)
            else:
                self._end(None)
        except Exception as error:
            # The fault is the receiver's own. It must not end the other connections.
            log.exception("receiver failed", extra={"fields": {"peer": self.peer}})
            self._end(error)
        finally:
            self._in_turn = False
        if (self._queue or self._sent_early) and not self._blocked and not self._warming:
            self.flush()

    @property
    def peer_ended(self) -> bool:
        if self._lost or self.is_unix:
            return self._lost
        state = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return state in (TCP_CLOSE, TCP_CLOSE_WAIT)

    # Writing

    def write(self, *buffers: Buffer) -> None:
        if self.closing:
            return
        size = 0
        for buffer in buffers:
            size += len(buffer)
        queue = self._queue
        waiting = len(queue)
        queue.extend(buffers)
        self._queued(size)
        if waiting < EARLY_SEND_BUFFERS <= len(queue):
            self._send_early()

    def write_file(
        self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None = None, *, cached: int = 0
    ) -> None:
        if self.closing:
            if on_sent is not None:
                self._loop.call_soon(on_sent, False)
            return
        self._queue.append(FileRange(fd, position, length, on_sent, cached, self._loop.time()))
        self._specials += 1
        self.pending_file_bytes += length
        self._queued(length)

    def read_ahead(
        self, fd: int, position: int, length: int, on_end: Callable[[Exception | None], None]
    ) -> Callable[[], bool] | None:
        window = min(length, WINDOW)
        with contextlib.suppress(OSError):  # the thread meets the error again
            if is_cached(fd, position, window):
                return None
        return self._disks.warm(fd, position, window, on_end)

    def hold_files(self, fds: Sequence[int]) -> list[int]:
        return duplicate(fds)

    def let_go(self, fd: int) -> None:
        os.close(fd)

    def attach_descriptors(self, fds: Sequence[int]) -> None:
        if not self.is_unix:
            raise ValueError("descriptors pass over Unix sockets only")
        if len(fds) > MAX_DESCRIPTORS:
            raise ValueError(f"{len(fds)} descriptors; the most is {MAX_DESCRIPTORS}")
        if not self.closing and fds:
            self._queue.append(Descriptors(fds))
            self._specials += 1

    def _queued(self, size: int) -> None:
        self.pending_bytes += size
        if self.pending_bytes > LOW_WATER:
            self._above_low_water = True
        if not (self._in_turn or self._flush_scheduled or self._blocked or self._warming):
            self._flush_scheduled = True
            self._outbox.add(self._flush_soon, self._send_early)

    def _flush_soon(self) -> None:
        self._flush_scheduled = False
        if not self._blocked and not self._warming:
            self.flush()

    def _send_early(self) -> None:
        """Sends buffers in the middle of another connection's turn, as far as that has no other effect. `flush` does the rest."""
        if self._queue and not (self._specials or self._flushing or self._blocked or self._warming or self._lost):
            self._sent_early = True
            with contextlib.suppress(OSError):  # a full socket too: `flush` meets the error again
                self._send_buffers()

    def flush(self) -> None:
        if self._lost or self._flushing or self._warming:
            return
        self._flushing = True
        full = self._sent_early = False
        budget = self.bytes_sent + FAIR_SHARE
        try:
            while self._queue and not self._warming and self.bytes_sent < budget:
                head = self._queue[0]
                if isinstance(head, FileRange):
                    self._send_file(head)
                else:
                    self._send_buffers()
        except (BlockingIOError, InterruptedError):
            full = True
        except OSError as error:
            self._end(error)
        finally:
            self._flushing = False
        if self._lost:
            return
        if self.on_flushed is not None:
            self._call_on_flushed(self.on_flushed)
            if self._lost:
                return
        if full is not self._blocked:
            self._blocked = full
            if full:
                self._loop.add_writer(self._fd, self.flush)
            else:
                self._loop.remove_writer(self._fd)
        if self._queue:
            if not full and not self._warming and not self._flush_scheduled:
                self._flush_scheduled = True
                self._outbox.add(self._flush_soon)
        elif self.closing:
            self._end(None)
            return
        if self._above_low_water and self.pending_bytes <= LOW_WATER:
            self._above_low_water = False
            if not self.closing and self._receiver is not None:
                self._call_write_ready(self._receiver)

    def _call_on_flushed(self, on_flushed: Callable[[], None]) -> None:
        try:
            on_flushed()
        except Exception as error:
            log.exception("receiver failed", extra={"fields": {"peer": self.peer}})
            self._end(error)

    def _call_write_ready(self, receiver: Receiver) -> None:
        # The owner's writes in answer belong to this turn, or to the next one if there is none.
        self._outbox.wakeful = True
        try:
            receiver.write_ready()
        except Exception as error:
            log.exception("receiver failed")
            self._end(error)
            return
        if self._queue and not (self._flush_scheduled or self._blocked or self._warming):
            self._flush_scheduled = True
            self._outbox.add(self._flush_soon)

    def _send_buffers(self) -> None:
        """One system call for the buffers at the head of the queue, up to the next file range or descriptors."""
        queue = self._queue
        riding: Descriptors | None = None
        ancillary: list[tuple[int, int, Any]] = []
        if not self._specials and len(queue) <= IOV_MAX:
            batch, flags = queue, 0
        else:
            first = 0
            head = queue[0]
            if isinstance(head, Descriptors):
                riding = head
                ancillary = head.ancillary()
                first = 1
            batch = []
            for item in queue[first : first + IOV_MAX]:
                if isinstance(item, (FileRange, Descriptors)):
                    break
                batch.append(item)
            flags = socket.MSG_MORE if first + len(batch) < len(queue) else 0
        self.sends += 1
        sent = self._socket.sendmsg(batch, ancillary, flags)  # type: ignore[arg-type]
        self.bytes_sent += sent
        self.pending_bytes -= sent
        if riding is not None:
            if not sent:
                return
            del queue[0]
            self._specials -= 1
            riding.close()
        if sent and self.pending_bytes == 0:
            queue.clear()
            return
        whole = 0
        for item in batch:
            size = len(item)  # type: ignore[arg-type]
            if size > sent:
                if sent:
                    queue[whole] = memoryview(item)[sent:]  # type: ignore[arg-type]
                break
            sent -= size
            whole += 1
        del queue[:whole]

    def _send_file(self, item: FileRange) -> None:
        if item.position < item.stop:
            window = min(item.stop - item.position, WINDOW)
            now = self._loop.time()
            if not item.is_cached(window, now):
                # sendfile would block the loop for as long as the disk takes.
                self._warm(item, window, now)
                return
            self.sends += 1
            sent = os.sendfile(self._fd, item.fd, item.position, window)
            if sent == 0:
                # The length was promised already, so the connection cannot go on.
                raise OSError("the file is shorter than the range")
            item.position += sent
            self.bytes_sent += sent
            self.pending_bytes -= sent
            self.pending_file_bytes -= sent
        if item.position >= item.stop:
            del self._queue[0]
            self._specials -= 1
            if item.on_sent is not None:
                self._outbox.wakeful = True
                item.on_sent(True)

    def _warm(self, item: FileRange, window: int, now: float) -> None:
        """Sends no more until a thread has read the next part of a range into the page cache."""
        self._cold = item
        self._drop_read = self._disks.warm(item.fd, item.position, window, partial(self._warmed, item, window))
        self._warming, self._warming_since = True, now

    def _warmed(self, item: FileRange, window: int, error: Exception | None) -> None:
        """Goes on with a range, once a thread has read the next part of it into the page cache."""
        if error is not None:
            self._end(error)
        now = self._loop.time()
        self.disk_wait_s += now - self._warming_since
        self._warming = False
        self._cold = self._drop_read = None
        if not self._lost:
            item.saw_cached(window, now)
            self.flush()
        elif item.on_sent is not None:
            item.on_sent(False)

    # The end

    def close(self) -> None:
        if self.closing:
            return
        self.pause_reading()
        self.closing = True
        if not self._queue and not self._in_turn:
            self._end(None)
        elif not self._lost:
            self._close_timer = self._loop.call_later(CLOSE_TIMEOUT_S, self._end, TimeoutError("the peer does not read"))
            if not self._flush_scheduled:
                self._flush_scheduled = True
                self._outbox.add(self._flush_soon)

    def abort(self, reason: Exception) -> None:
        self._end(reason)

    def _end(self, reason: Exception | None) -> None:
        if self._lost:
            return
        self.pause_reading()
        self._lost = self.closing = self._outbox.wakeful = True
        if self._blocked:
            self._loop.remove_writer(self._fd)
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_socket(reason)
        if self._drop_read is not None:
            self._warming = not self._drop_read()
            self._drop_read = None
        dropped, self._queue = self._queue, []
        for item in dropped:
            if isinstance(item, Descriptors):
                item.close()
            elif isinstance(item, FileRange) and item.on_sent is not None and not (item is self._cold and self._warming):
                self._loop.call_soon(item.on_sent, False)  # `_warmed` answers for the range that a thread reads
        self._specials = self.pending_bytes = self.pending_file_bytes = 0
        if self._receiver is not None:
            self._loop.call_soon(self._receiver.connection_lost, reason)
        # It holds its owner no longer: thousands of both, left to the garbage collector, would stop the loop for 0.3 s.
        self._receiver = self.on_flushed = self.on_secured = None

    def _close_socket(self, reason: Exception | None) -> None:
        self._socket.close()
