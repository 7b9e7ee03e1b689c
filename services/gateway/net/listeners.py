"""The listening sockets: the bootstrap port, and one port per storage node that ever registered.

Rule (docs/rules.md): one port per broker id. A port stays open while its node is down: the client that reconnects must hear
"not leader" and where the leader is now, instead of a refused connection.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from functools import partial

from libs.host_port import with_port, without_brackets
from libs.rpc.transport.tls_server import TlsServer
from libs.rpc.transport.transport import Listener, Receiver, Stream, Transport
from libs.telemetry.logs import fields
from services.gateway.core.addresses import BOOTSTRAP

log = logging.getLogger("network")

RETRY_S = 1.0

Accept = Callable[[Stream, int], Receiver]
"""Called with a stream, and the broker id or BOOTSTRAP whose port it came to."""
Wait = Callable[[int], float]
"""Tells how many seconds the port of a broker id, or BOOTSTRAP's, should take no stream."""


class Listeners:
    """The open listening sockets. `start` opens the bootstrap port last, so that a client that can connect there finds each port
    that Metadata names."""

    def __init__(
        self,
        transport: Transport,
        host: str,
        port_base: int,
        accept: Accept,
        wait_s: Wait,
        *,
        send_buffer_bytes: int,
        tls: TlsServer | None = None,
        own: frozenset[int] | None = None,
    ) -> None:
        """`own`: the broker ids whose ports it opens. None: those of all, and the bootstrap port."""
        self._own = own
        self._transport = transport
        self._tls = tls
        self._send_buffer_bytes = send_buffer_bytes
        self._host = host
        self._port_base = port_base
        self._accept = accept
        self._wait_s = wait_s
        self._open: dict[int, Listener] = {}
        self._wanted: set[int] = set()
        self._opening: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def broker_ids(self) -> set[int]:
        return self._open.keys() - {BOOTSTRAP}

    async def start(self, broker_ids: Iterable[int], inherited: socket.socket | None = None) -> None:
        """Opens all ports. `inherited`: the socket of the one own port. Raises OSError when the bootstrap port or an own one is
        taken."""
        if self._own is not None:
            for broker_id in sorted(self._own):
                if inherited is not None:
                    self.take(broker_id, inherited)
                else:
                    self._open[broker_id] = await self._listen(broker_id)
            log.info("listening", extra=fields(broker_ids=sorted(self._own)))
            return
        self._wanted = set(broker_ids)
        await self._open_wanted()
        self._open[BOOTSTRAP] = await self._listen(BOOTSTRAP)
        log.info("listening", extra=fields(bootstrap=self._open[BOOTSTRAP].address, broker_ids=sorted(self.broker_ids)))

    @property
    def host(self) -> str:
        """As the settings say it, without the brackets of an IPv6 address."""
        return without_brackets(self._host)

    @property
    def hosts(self) -> set[str]:
        """Where it listens: as the settings say it, and the addresses of its own open ports, which a name of a host leads to.
        What it took from siblings may be elsewhere."""
        own = self._own if self._own is not None else self._open.keys()
        opened = [listener.listening for broker_id, listener in self._open.items() if broker_id in own]
        return {self.host, *(listening.getsockname()[0] for listening in opened if listening is not None)}

    def port_of(self, broker_id: int) -> int:
        return self._port_base + max(broker_id, 0)

    async def is_at_own_port(self, listening: socket.socket) -> bool:
        """Whether a socket has the address of its one own port. The process that bound it may have had another host or port."""
        host, ports = self.host, [self.port_of(broker_id) for broker_id in self._own or ()]
        resolve = asyncio.get_running_loop().getaddrinfo
        found = [await resolve(host, port, type=socket.SOCK_STREAM) for port in ports]
        return listening.getsockname()[:2] in [name[:2] for names in found for *_, name in names]

    def follow(self, broker_ids: set[int]) -> None:
        """Opens the ports of new broker ids, and closes those of broker ids that were unregistered."""
        if self._own is not None:
            return
        self._wanted = broker_ids
        for broker_id in self.broker_ids - broker_ids:
            self._open.pop(broker_id).close()
        if broker_ids - self.broker_ids and self._opening is None and not self._closed:
            self._opening = asyncio.get_running_loop().create_task(self._keep_opening())

    def take(self, broker_id: int, listening: socket.socket) -> None:
        """Accepts from a socket of that broker's port which another process opened."""
        if (former := self._open.get(broker_id)) is not None:
            former.close()
        accepted = partial(self._accepted, broker_id)
        self._open[broker_id] = self._transport.adopt(listening, accepted, tls=self._tls)

    def give_up(self, broker_id: int) -> None:
        """Accepts no more from that broker's port, if it does."""
        if (listener := self._open.pop(broker_id, None)) is not None:
            listener.close()

    def listening(self, broker_id: int) -> socket.socket | None:
        """The socket of that broker's port. None: it is not open."""
        listener = self._open.get(broker_id)
        return listener.listening if listener is not None else None

    def close(self) -> None:
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
        for listener in self._open.values():
            listener.close()
        self._open.clear()

    async def _keep_opening(self) -> None:
        try:
            while True:
                if await self._open_wanted():
                    return
                await asyncio.sleep(RETRY_S)
        finally:
            self._opening = None

    async def _open_wanted(self) -> bool:
        """Opens the missing ports. True when all are open. A taken port is tried again later, since only its own broker id lacks
        it."""
        for broker_id in sorted(self._wanted - self.broker_ids):
            try:
                listener = await self._listen(broker_id)
            except OSError as error:
                log.error("broker port not opened", extra=fields(broker_id=broker_id, error=str(error)))
                continue
            self._open[broker_id] = listener
        return self._wanted <= self.broker_ids

    async def _listen(self, broker_id: int) -> Listener:
        port = self.port_of(broker_id)
        address, accepted = f"tcp:{with_port(self._host, port)}", partial(self._accepted, broker_id)
        return await self._transport.listen(address, accepted, send_buffer_bytes=self._send_buffer_bytes, tls=self._tls)

    def _accepted(self, broker_id: int, stream: Stream) -> Receiver:
        receiver = self._accept(stream, broker_id)
        if self._wait_s(broker_id):
            for port, listener in self._open.items():
                if wait_s := self._wait_s(port):
                    listener.pause(wait_s)
        return receiver
