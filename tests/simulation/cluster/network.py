"""Links between simulated hosts, behind the `Transport` seam.

A stream never loses bytes: it stalls, is reset or goes half-open. Each connection has its own delays, so that requests on
different connections overtake each other. What one host sends to another may be blocked in one direction only. Between services
of one process the connection has a link beside it, as `libs.rpc.transport.local_transport` makes it.
"""

import asyncio
import errno
import logging
import os
import posixpath
from collections.abc import Callable
from contextvars import copy_context
from random import Random

from libs.rpc.files.passed_files import PassedFiles
from libs.rpc.transport.frame_link import join
from libs.rpc.transport.tls_server import TlsServer
from libs.rpc.transport.transport import KERNELS_CHOICE, SILENCE_S, Receiver, Stream
from tests.simulation.cluster.loop import LIFE, Life, VirtualLoop
from tests.simulation.cluster.passed_files import SimulatedPassedFiles
from tests.simulation.cluster.stream import SimulatedStream
from tests.simulation.disk import SimulatedDisk

log = logging.getLogger(__name__)

SYN_AGAIN_S = 1.0


class Network:
    """All links of one run."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.loop, self.random = loop, random
        self.listeners: dict[tuple[str, int | str], SimulatedListener] = {}
        self.streams: dict[int, SimulatedStream] = {}
        self.touched: dict[SimulatedStream, None] = {}
        """Those that were read, written to, paused or ended since a check cleared it."""
        self.down: dict[str, bool] = {}  # hosts without power
        self.kernels: dict[str, str] = {}
        """Of hosts that share one. They are containers on it, each with addresses of its own: links fail, Unix sockets do not."""
        self.messages = 0
        self._numbers = 0
        self._blocked: dict[tuple[str, str], int] = {}
        self._slow: dict[tuple[str, str], float] = {}

    def delay(self, source: str, target: str) -> float:
        base = 0.0002 + 0.0015 * self.random.random() ** 4
        if self.random.random() < 0.01:
            base += 0.02 * self.random.random()
        return base + self._slow.get((source, target), 0.0) if self._slow else base

    def kernel_of(self, host: str) -> str:
        return self.kernels.get(host, host)

    def number(self, stream: "SimulatedStream") -> int:
        self._numbers += 1
        self.streams[self._numbers] = stream
        return self._numbers

    # --- faults

    def blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked

    def block(self, source: str, target: str) -> None:
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        """Lets the links carry again. What was sent meanwhile arrives late."""
        left = self._blocked.get((source, target), 0) - 1
        if left > 0:
            self._blocked[source, target] = left
            return
        self._blocked.pop((source, target), None)
        for stream in list(self.streams.values()):
            if stream.remote == source and stream.local == target:
                stream.unstick()

    def slow(self, source: str, target: str, delay_s: float) -> None:
        if delay_s:
            self._slow[source, target] = delay_s
        else:
            self._slow.pop((source, target), None)

    def reset(self, one: str, other: str) -> int:
        """Every connection between the two hosts, unless a kernel's socket carries it. Returns how many there were."""
        between = [stream for stream in self.streams.values() if stream.local == one and stream.remote == other]
        found = [stream for stream in between if stream.link is not None or not stream.is_unix]
        for stream in found:
            stream.broken()
            if stream.other is not None:
                stream.other.broken()
        return len(found)

    def kill(self, life: Life) -> None:
        """The kernel closes what a dead process had open."""
        for key in [key for key, listener in self.listeners.items() if listener.life is life]:
            del self.listeners[key]
        for stream in [stream for stream in self.streams.values() if stream.life is life]:
            stream.die(notify=True)

    def power_cut(self, host: str) -> None:
        """Ends the host's connections silently. Senders get resets once the host is up again."""
        self.down[host] = True
        for key in [key for key in self.listeners if key[0] == host]:
            del self.listeners[key]
        for stream in [stream for stream in self.streams.values() if stream.local == host]:
            stream.die(notify=False)

    def power_on(self, host: str) -> None:
        self.down.pop(host, None)
        for stream in [stream for stream in self.streams.values() if stream.local == host and stream.lost]:
            stream.answer_for_the_dead()
            del self.streams[stream.key]


class SimulatedTransport:
    """One process's way to the network. `disk` is where the files are that its streams send."""

    def __init__(self, network: Network, host: str, disk: SimulatedDisk | None, random: Random | None = None) -> None:
        """`random` decides what becomes of passed files: a process without it gets none."""
        self._network, self._host, self._disk = network, host, disk
        self._passed = SimulatedPassedFiles(disk, random) if disk is not None and random is not None else None

    @property
    def silence_s(self) -> float:
        return SILENCE_S

    @property
    def passed_files(self) -> PassedFiles:
        assert self._passed is not None, "nobody passes files to this process"
        return self._passed

    peer_tls = None

    def has_socket(self, path: str) -> bool:
        host = _host_of(path)
        return (host, path) in self._network.listeners and self._network.kernel_of(host) == self._network.kernel_of(self._host)

    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        network, host = self._network, self._host
        target, port = _parsed(address)
        is_unix = isinstance(port, str)
        own = network.listeners.get((target, port)) if is_unix else None
        if own is not None and own.life is LIFE.get():
            return self._connect_inside(own, target, address, receiver_factory)
        async with asyncio.timeout(timeout_s):
            while True:
                await asyncio.sleep(network.delay(host, target))
                cut = network.blocked(host, target) or network.blocked(target, host)
                if (cut and not is_unix) or target in network.down:
                    await asyncio.sleep(SYN_AGAIN_S)
                    continue
                break
            listener = network.listeners.get((target, port))
            if listener is None:
                await asyncio.sleep(network.delay(target, host))
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), address)
            here, there = self._ends(listener, target, address)
            if is_unix:
                here.be_unix()
                there.be_unix()
            network.loop.call_soon(listener.accept, there, context=listener.context)
            await asyncio.sleep(network.delay(target, host))
        here.start(receiver_factory(here))
        return here

    def _ends(self, listener: "SimulatedListener", target: str, address: str) -> tuple[SimulatedStream, SimulatedStream]:
        """Ours and the listener's."""
        network, host = self._network, self._host
        here = SimulatedStream(network, host, target, address, copy_context(), self._disk, self._passed)
        there = SimulatedStream(network, target, host, f"tcp:{host}:{here.key}", listener.context, listener.disk)
        here.other, there.other = there, here
        there.sends_passed_files = listener.sends_passed_files
        return here, there

    def _connect_inside(
        self, listener: "SimulatedListener", target: str, address: str, receiver_factory: Callable[[Stream], Receiver]
    ) -> SimulatedStream:
        """A connection between two services of this process."""
        here, there = self._ends(listener, target, address)
        here.be_unix()
        there.be_unix()
        try:
            join(here, there, listener.on_stream, receiver_factory)
        except BaseException as error:
            here.abort(ConnectionAbortedError(str(error)))
            there.abort(ConnectionAbortedError(str(error)))
            raise
        return here

    async def listen(
        self,
        address: str,
        on_stream: Callable[[Stream], Receiver],
        *,
        send_buffer_bytes: int = KERNELS_CHOICE,
        tls: TlsServer | None = None,
    ) -> "SimulatedListener":
        assert tls is None, "the simulated network has no TLS"
        host, port = _parsed(address)
        key = (self._host, port)
        if isinstance(port, str) and host != self._host:
            raise ValueError(f"{address!r}: a socket is named for its host")
        if key in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), address)
        listener = self._network.listeners[key] = SimulatedListener(self._network, self._host, port, self._disk, on_stream)
        listener.sends_passed_files = self._passed is not None
        return listener


class SimulatedListener:
    def __init__(
        self,
        network: Network,
        host: str,
        port: int | str,
        disk: SimulatedDisk | None,
        on_stream: Callable[[Stream], Receiver],
    ) -> None:
        self._network, self._key, self.on_stream = network, (host, port), on_stream
        self.disk = disk
        self.sends_passed_files = False
        """Whether what its streams send was passed by others."""
        self.context = copy_context()
        self.life = LIFE.get()
        self._paused_until = 0.0
        self.address = f"unix:{port}" if isinstance(port, str) else f"tcp:{host}:{port}"

    def pause(self, seconds: float) -> None:
        self._paused_until = self._network.loop.time() + seconds

    def accept(self, stream: "SimulatedStream") -> None:
        if stream.lost:
            return
        if self._network.loop.time() < self._paused_until:
            self._network.loop.call_at(self._paused_until, self.accept, stream, context=self.context)
            return
        try:
            stream.start(self.on_stream(stream))
        except Exception as error:
            log.exception("no receiver for a new connection")
            stream.abort(error)

    def close(self) -> None:
        if self._network.listeners.get(self._key) is self:
            del self._network.listeners[self._key]


def _parsed(address: str) -> tuple[str, int | str]:
    """The host, and its port, or the path of its Unix socket."""
    scheme, _, rest = address.partition(":")
    if scheme == "unix":
        return _host_of(rest), rest
    host, _, port = rest.partition(":")
    return host, int(port)


def _host_of(path: str) -> str:
    """The host that a socket is named for."""
    return posixpath.basename(path).removesuffix(".sock")
