"""One end of a simulated connection: what it holds, what is on its way, and how it ends."""

import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple

from libs.rpc.transport.frame_link import LinkEnd
from libs.rpc.transport.socket_stream import LOW_WATER
from libs.rpc.transport.transport import Buffer, Receiver
from tests.simulation.cluster.loop import LIFE
from tests.simulation.cluster.passed_files import SimulatedPassedFiles
from tests.simulation.disk import SimulatedDisk
from tests.simulation.inodes import SimFile

if TYPE_CHECKING:
    from tests.simulation.cluster.network import Network

log = logging.getLogger(__name__)

WINDOW = 256 * 1024
"""So much may be on its way and unread: what the kernels of both ends hold."""
REST_S = 0.001
"""So much later the rest of a message with descriptors is received: the next message may be there by then."""
WORLD = Context()
"""Belongs to no process: what the network does goes on while processes are paused or dead."""


class Ending(Exception):
    """A FIN; as a reset it carries an error."""


def reset_error() -> OSError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


class _FileRange:
    __slots__ = ("fd", "length", "on_sent", "position")

    def __init__(self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None) -> None:
        self.fd, self.position, self.length, self.on_sent = fd, position, length, on_sent


class _Files(NamedTuple):
    """Descriptors on their way: they come with the bytes that follow them."""

    files: list[SimFile]


class _Message(NamedTuple):
    """Bytes that descriptors come with."""

    data: bytes
    files: list[SimFile]


What = bytes | _Message | Exception


class SimulatedStream:
    """One end of a connection; `other` is the other. See `libs.rpc.transport.transport.Stream`."""

    is_unix = False
    link: LinkEnd | None = None
    tls = None
    peer_uid: int | None = None
    sends_passed_files = False
    """Whether all files that it sends were passed, and what is sent of them is committed. So they are never cut before it."""

    def __init__(
        self,
        network: "Network",
        local: str,
        remote: str,
        peer: str,
        context: Context,
        disk: SimulatedDisk | None,
        passed: SimulatedPassedFiles | None = None,
    ) -> None:
        self._network, self._loop, self._context, self._fs = network, network.loop, context, disk
        self._passed = passed
        self._messages: deque[tuple[int, int, list[SimFile]]] = deque()
        """Where bytes that descriptors came with begin and end, of all that arrived."""
        self._arrived = 0
        self.received = 0
        """Bytes that its receiver has taken."""
        self._rest_is_late = False
        self.local, self.remote, self.peer = local, remote, peer
        self.life = context.get(LIFE)
        self.other: SimulatedStream | None = None
        self.pending_bytes = self.pending_file_bytes = self.bytes_sent = 0
        self.disk_wait_s = 0.0  # simulated reads cost no time
        self.closing = self.lost = False
        self.on_flushed: Callable[[], None] | None = None
        self.on_secured: Callable[[], None] | None = None
        self._receiver: Receiver | None = None
        self._queue: list[Buffer | _FileRange | _Files] = []
        self._inbox = bytearray()
        self._least = 1  # bytes for which the receiver is called
        self._ending: Exception | None = None
        self._stuck: list[What] = []
        self._on_way = 0  # sent, and not yet read by the other end
        self._last_arrival = 0.0
        self.reading = False
        self._in_turn = self._turn_coming = self._flush_coming = self._above_low_water = self._ready_coming = False
        self.key = network.number(self)

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    @property
    def settled_receiver(self) -> Receiver | None:
        """Its owner, unless the owner will be told at once that it may write on."""
        return None if self._ready_coming else self._receiver

    @property
    def accepted(self) -> bool:
        """Whether its process has a descriptor of it. Before that it waits in the kernel."""
        return self._receiver is not None

    def be_unix(self) -> None:
        """A Unix socket: no link of the network is between its ends."""
        self.is_unix, self.peer_uid = True, 0

    # --- reading

    def pause_reading(self) -> None:
        self._network.touched[self] = None
        self.reading = False

    def resume_reading(self) -> None:
        self._network.touched[self] = None
        if not self.closing:
            self.reading = True
            self._turn_soon()

    def receive_at_least(self, nbytes: int) -> None:
        self._network.touched[self] = None
        self._least = nbytes
        self._turn_soon()

    def _turn_soon(self) -> None:
        if self.reading and not self._turn_coming and (len(self._inbox) >= self._least or self._ending is not None):
            self._turn_coming = True
            if self._rest_is_late:
                self._loop.call_later(REST_S, self._turn, context=self._context)
            else:
                self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        self._turn_coming = self._rest_is_late = False
        receiver, inbox = self._receiver, self._inbox
        if self.lost or not self.reading or receiver is None:
            return
        ending = self._ending
        if ending is not None and (not inbox or not isinstance(ending, Ending)):
            self._end(None if isinstance(ending, Ending) else ending)
            return
        if not inbox:
            return
        self._in_turn = True
        self._network.touched[self] = None
        try:
            buffer = receiver.get_buffer()
            count = min(len(buffer), len(inbox))
            if count > 1 and self._network.random.random() < 0.03:
                count = self._network.random.randrange(1, count)
            if self._messages:
                count = self._take_descriptors(receiver, count)
            buffer[:count] = inbox[:count]
            del buffer
            del inbox[:count]
            self.received += count
            receiver.buffer_updated(count)
        except Exception as error:
            log.exception("receiver failed")
            self._end(error)
        finally:
            self._in_turn = False
        if self.lost:
            return
        if self.other is not None:
            self.other.read_by_peer(count)
        if self._queue:
            self.flush()
        self._turn_soon()

    def _take_descriptors(self, receiver: Receiver, count: int) -> int:
        """A receive ends with the first message that has descriptors. Returns how many bytes it brings."""
        start, end, files = self._messages[0]
        if start >= self.received + count:
            return count
        self._messages.popleft()
        assert self._passed is not None
        count = self._passed.part_of(min(count, end - self.received))
        self._rest_is_late = self.received + count < end
        receiver.descriptors_received(self._passed.adopt(files))
        return count

    def read_by_peer(self, count: int) -> None:
        self._on_way -= count
        if self._queue and not self.lost:
            self._flush_later()

    # --- writing

    def write(self, *buffers: Buffer) -> None:
        if self.closing:
            return
        self._queue.extend(buffers)
        self._queued(sum(map(len, buffers)))

    def write_file(
        self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None = None, *, cached: int = 0
    ) -> None:
        if self.closing:
            if on_sent is not None:
                self._loop.call_soon(on_sent, False, context=self._context)
            return
        self._queue.append(_FileRange(fd, position, length, on_sent))
        self.pending_file_bytes += length
        self._queued(length)

    @property
    def peer_ended(self) -> bool:
        return self.lost or self._ending is not None

    def read_ahead(self, fd: int, position: int, length: int, on_end: Callable[[Exception | None], None]) -> None:
        """All is in the page cache."""

    def hold_files(self, fds: Sequence[int]) -> list[int]:
        assert self._fs is not None
        return [self._fs.reopen_read(fd) for fd in fds]

    def let_go(self, fd: int) -> None:
        assert self._fs is not None
        self._fs.close(fd)

    def attach_descriptors(self, fds: Sequence[int]) -> None:
        if not self.is_unix or self._fs is None:
            raise ValueError("descriptors pass over Unix sockets only")
        if not self.closing and fds:
            self._queue.append(_Files([self._fs.file_of(fd) for fd in fds]))

    def _queued(self, size: int) -> None:
        self._network.touched[self] = None
        self.pending_bytes += size
        if self.pending_bytes > LOW_WATER:
            self._above_low_water = True
        if not self._in_turn:
            self._flush_later()

    def _flush_later(self) -> None:
        if not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._flush_soon, context=self._context)

    def _flush_soon(self) -> None:
        self._flush_coming = False
        self.flush()

    def flush(self) -> None:
        if self.lost:
            return
        out = bytearray()
        riding: list[SimFile] = []
        sent: list[Callable[[bool], None]] = []
        while self._queue and self._on_way + len(out) < WINDOW:
            item = self._queue.pop(0)
            if isinstance(item, (bytes, memoryview, bytearray)):
                out += item
            elif isinstance(item, _Files):
                self._send_bytes(out, riding)
                out, riding = bytearray(), item.files
            else:
                if item.on_sent is not None:
                    sent.append(item.on_sent)
                try:
                    assert self._fs is not None
                    data = self._fs.page_cache(item.fd, item.length, item.position)
                    if len(data) < item.length:
                        if self.sends_passed_files:
                            self._loop.failures.append(f"{self.local}: {self.peer} was promised bytes that its file lacks")
                        raise OSError("the file is shorter than the range")
                except OSError as error:
                    self._end(error)
                    return
                self.pending_file_bytes -= len(data)
                out += data
        if riding and not out:
            self._queue.insert(0, _Files(riding))
        self._send_bytes(out, riding)
        for on_sent in sent:
            on_sent(True)
        if self.on_flushed is not None:
            self.on_flushed()
        if not self._queue and self.closing:
            self._end(None)
        elif self._above_low_water and self.pending_bytes <= LOW_WATER:
            self._above_low_water = False
            self._ready_coming = True
            self._loop.call_soon(self._write_ready, context=self._context)

    def _send_bytes(self, out: bytearray, riding: list[SimFile]) -> None:
        if out:
            size = len(out)
            self.pending_bytes -= size
            self.bytes_sent += size
            self._on_way += size
            self._network.messages += 1
            self._loop.traced(out)
            self._send(_Message(bytes(out), riding) if riding else bytes(out))

    def _write_ready(self) -> None:
        self._ready_coming = False
        self._network.touched[self] = None
        if not self.closing and self._receiver is not None:
            self._receiver.write_ready()

    # --- the way

    def _send(self, what: What) -> None:
        if self.life is not None and self.life.dead:
            return
        self._schedule(what)

    def _schedule(self, what: What) -> None:
        other = self.other
        assert other is not None
        # Never at the same instant: the loop draws the order of what is.
        remote = self.local if self.is_unix else self.remote
        when = max(self._last_arrival + 1e-6, self._loop.now + self._network.delay(self.local, remote))
        self._last_arrival = when
        self._loop.call_at(when, other.arrived, what, context=WORLD)

    def arrived(self, what: What) -> None:
        if self._stuck or (self._network.blocked(self.remote, self.local) and not self.is_unix):
            self._stuck.append(what)
        elif not self.lost:
            if isinstance(what, Exception):
                self._ending = what
            else:
                if isinstance(what, _Message):
                    what, files = what
                    self._messages.append((self._arrived, self._arrived + len(what), files))
                self._arrived += len(what)
                self._inbox += what
            self._turn_soon()

    def unstick(self) -> None:
        if self._stuck:
            self._loop.call_at(self._loop.time() + self._network.delay(self.remote, self.local), self._release, context=WORLD)

    def _release(self) -> None:
        """Delivers in order: later bytes wait behind earlier ones."""
        if not self._network.blocked(self.remote, self.local):
            stuck, self._stuck = self._stuck, []
            for what in stuck:
                self.arrived(what)

    # --- the end

    def close(self) -> None:
        self._network.touched[self] = None
        if self.closing:
            return
        self.reading = False
        self.closing = True
        if not self._queue and not self._in_turn:
            self._end(None)
        else:
            self._flush_later()

    def abort(self, reason: Exception) -> None:
        self._end(reason)

    def broken(self) -> None:
        """A reset out of nowhere: this end hears of it when it next looks."""
        if not self.lost:
            self._ending = reset_error()
            self._turn_soon()

    def answer_for_the_dead(self) -> None:
        """The host is up again, and knows nothing of the connection."""
        self._schedule(reset_error())

    def die(self, *, notify: bool) -> None:
        """Its process, or its whole host, is gone."""
        if self.lost:
            return
        self.lost = self.closing = True
        if notify:
            self._schedule(reset_error() if self._inbox else Ending())
            self._network.streams.pop(self.key, None)

    def _end(self, reason: Exception | None) -> None:
        if self.lost:
            return
        self.lost = self.closing = True
        self.reading = False
        self._network.streams.pop(self.key, None)
        self._send(Ending() if reason is None and not self._inbox else reset_error())
        dropped, self._queue = self._queue, []
        for item in dropped:
            if isinstance(item, _FileRange) and item.on_sent is not None:
                self._loop.call_soon(item.on_sent, False, context=self._context)
        self.pending_bytes = self.pending_file_bytes = 0
        if self._receiver is not None:
            self._loop.call_soon(self._tell_lost, self._receiver, reason, context=self._context)

    def _tell_lost(self, receiver: Receiver, reason: Exception | None) -> None:
        self._network.touched[self] = None
        receiver.connection_lost(reason)
