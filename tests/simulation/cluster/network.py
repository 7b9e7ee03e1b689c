"""Links between simulated hosts, behind the `Transport` seam.

A stream never loses bytes: it stalls, is reset or goes half-open. Each connection has its own delays, so that requests on
different connections overtake each other. What one host sends to another may be blocked in one direction only.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from contextvars import copy_context
from random import Random

from libs.commitlog.files.filesystem import FileSystem
from libs.rpc.transport import Receiver, Stream
from tests.simulation.cluster.loop import LIFE, Life, VirtualLoop
from tests.simulation.cluster.stream import SimulatedStream

log = logging.getLogger(__name__)

SYN_AGAIN_S = 1.0


class Network:
    """All links of one run."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.loop, self.random = loop, random
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.streams: dict[int, SimulatedStream] = {}
        self.down: dict[str, bool] = {}  # hosts without power
        self.messages = 0
        self._numbers = 0
        self._blocked: dict[tuple[str, str], int] = {}
        self._slow: dict[tuple[str, str], float] = {}

    def delay(self, source: str, target: str) -> float:
        base = 0.0002 + 0.0015 * self.random.random() ** 4
        if self.random.random() < 0.01:
            base += 0.02 * self.random.random()
        return base + self._slow.get((source, target), 0.0)

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
        """Every connection between the two hosts. Returns how many there were."""
        found = [stream for stream in self.streams.values() if stream.local == one and stream.remote == other]
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
    """One process's way to the network. `fs` is where the files are that its streams send."""

    def __init__(self, network: Network, host: str, fs: FileSystem | None) -> None:
        self._network, self._host, self._fs = network, host, fs

    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        network, host = self._network, self._host
        target, port = _parsed(address)
        async with asyncio.timeout(timeout_s):
            while True:
                await asyncio.sleep(network.delay(host, target))
                if network.blocked(host, target) or network.blocked(target, host) or target in network.down:
                    await asyncio.sleep(SYN_AGAIN_S)
                    continue
                break
            listener = network.listeners.get((target, port))
            if listener is None:
                await asyncio.sleep(network.delay(target, host))
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), address)
            here = SimulatedStream(network, host, target, address, copy_context(), self._fs)
            there = SimulatedStream(network, target, host, f"tcp:{host}:{here.key}", listener.context, listener.fs)
            here.other, there.other = there, here
            network.loop.call_soon(listener.accept, there, context=listener.context)
            await asyncio.sleep(network.delay(target, host))
        here.start(receiver_factory(here))
        return here

    async def listen(self, address: str, on_stream: Callable[[Stream], Receiver]) -> "SimulatedListener":
        _, port = _parsed(address)
        key = (self._host, port)
        if key in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), address)
        listener = self._network.listeners[key] = SimulatedListener(self._network, self._host, port, self._fs, on_stream)
        return listener


class SimulatedListener:
    def __init__(
        self, network: Network, host: str, port: int, fs: FileSystem | None, on_stream: Callable[[Stream], Receiver]
    ) -> None:
        self._network, self._key, self._on_stream = network, (host, port), on_stream
        self.fs = fs
        self.context = copy_context()
        self.life = LIFE.get()
        self.address = f"tcp:{host}:{port}"

    def accept(self, stream: "SimulatedStream") -> None:
        if stream.lost:
            return
        try:
            stream.start(self._on_stream(stream))
        except Exception as error:
            log.exception("no receiver for a new connection")
            stream.abort(error)

    def close(self) -> None:
        if self._network.listeners.get(self._key) is self:
            del self._network.listeners[self._key]


def _parsed(address: str) -> tuple[str, int]:
    scheme, host, port = address.split(":")
    if scheme != "tcp":
        raise ValueError(f"{address!r} is not simulated: only tcp:host:port is")
    return host, int(port)
