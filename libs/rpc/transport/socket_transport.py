"""The real transport: TCP and Unix sockets of this machine."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable

from libs.host_port import peer_host, with_port
from libs.rpc.files.disk_readers import DiskReaders
from libs.rpc.files.passed_files import OsPassedFiles
from libs.rpc.transport.peer_tls import PeerTls
from libs.rpc.transport.socket_stream import SocketStream
from libs.rpc.transport.tls_server import TlsServer
from libs.rpc.transport.tls_stream import TlsStream
from libs.rpc.transport.transport import KERNELS_CHOICE, SILENCE_S, Receiver, Stream

log = logging.getLogger("network")

BACKLOG = 1024
ACCEPTS_A_TURN = 64
OUT_OF_DESCRIPTORS_PAUSE_S = 0.5
UNIX_SEND_BUFFER = 4 << 20
"""The send buffer that is asked for. The kernel gives twice `net.core.wmem_max` at most. Its default has room for one batch of
128 KB only."""
ROOT_UID = 0
_UCRED = struct.Struct("3i")


class SocketTransport:
    """The transport of Unix and TCP sockets. A Unix socket accepts only processes of the users in `allowed_uids` (default: our
    own, and root), and connects only to theirs."""

    def __init__(
        self,
        *,
        allowed_uids: frozenset[int] | None = None,
        silence_s: float = SILENCE_S,
        peer_tls: PeerTls | None = None,
    ) -> None:
        self.silence_s = silence_s
        self.peer_tls = peer_tls
        self._disks = DiskReaders()
        self.passed_files = OsPassedFiles()
        self._allowed_uids = frozenset({os.getuid(), ROOT_UID}) if allowed_uids is None else allowed_uids

    def has_socket(self, path: str) -> bool:
        return os.path.exists(path)

    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        async with asyncio.timeout(timeout_s):
            family, target = await _resolved(*parse_address(address))
            connecting = socket.socket(family, socket.SOCK_STREAM)
            try:
                connecting.setblocking(False)
                await asyncio.get_running_loop().sock_connect(connecting, target)
                peer_tls = self.peer_tls if family != socket.AF_UNIX else None
                stream = self._stream(connecting, address, peer_tls.client if peer_tls is not None else None)
            except BaseException:
                connecting.close()
                raise
        stream.start(receiver_factory(stream))
        return stream

    async def listen(
        self,
        address: str,
        on_stream: Callable[[Stream], Receiver],
        *,
        send_buffer_bytes: int = KERNELS_CHOICE,
        tls: TlsServer | None = None,
    ) -> "SocketListener":
        family, target = await _resolved(*parse_address(address))
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            if family == socket.AF_UNIX:
                assert isinstance(target, str)
                _remove_stale(target)
                # The kernel makes the file with the socket's own mode: nobody can connect before a `chmod`.
                os.fchmod(listening.fileno(), 0o600)
                listening.bind(target)
            else:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if send_buffer_bytes != KERNELS_CHOICE:  # accepted sockets inherit it
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
                listening.bind(target)
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            raise OSError(error.errno, error.strerror or str(error), address) from error
        except BaseException:
            listening.close()
            raise
        return self.adopt(listening, on_stream, tls=tls)

    def adopt(
        self, listening: socket.socket, on_stream: Callable[[Stream], Receiver], *, tls: TlsServer | None = None
    ) -> "SocketListener":
        return SocketListener(listening, lambda accepted, peer: self._accepted(accepted, peer, on_stream, tls))

    def _accepted(
        self, accepted: socket.socket, peer: str, on_stream: Callable[[Stream], Receiver], tls: TlsServer | None
    ) -> None:
        try:
            stream = self._stream(accepted, peer, tls)
        except OSError as error:
            log.warning("connection refused", extra={"fields": {"peer": peer, "reason": str(error)}})
            accepted.close()
            return
        try:
            stream.start(on_stream(stream))
        except Exception as error:
            log.exception("no receiver for a new connection")
            stream.abort(error)

    def _stream(self, connected: socket.socket, peer: str, tls: TlsServer | None = None) -> SocketStream:
        connected.setblocking(False)
        uid: int | None = None
        if connected.family == socket.AF_UNIX:
            pid, uid, _ = _UCRED.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            if uid not in self._allowed_uids:
                raise PermissionError(errno.EACCES, f"process {pid} runs as uid {uid}, which may not talk to us")
            peer = f"{peer}#{pid}"
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNIX_SEND_BUFFER)
        else:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            return TlsStream(connected, tls, peer=peer, disks=self._disks)
        return SocketStream(connected, peer=peer, peer_uid=uid, disks=self._disks)


class SocketListener:
    def __init__(self, listening: socket.socket, on_accepted: Callable[[socket.socket, str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._on_accepted = on_accepted
        self._resume: asyncio.TimerHandle | None = None
        self._unix_path: str | None = None
        self.on_close: Callable[[], object] | None = None
        name = listening.getsockname()
        if listening.family == socket.AF_UNIX:
            self._unix_path = name
            self.address = f"unix:{name}"
        else:
            self.address = f"tcp:{with_port(name[0], name[1])}"
        self._loop.add_reader(listening.fileno(), self._readable)

    @property
    def listening(self) -> socket.socket:
        return self._socket

    @property
    def is_unix(self) -> bool:
        return self._unix_path is not None

    def _readable(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, name = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory. The connection stays in the backlog, and the loop must not spin on it.
                log.warning("cannot accept", extra={"fields": {"address": self.address, "reason": str(error)}})
                self.pause(OUT_OF_DESCRIPTORS_PAUSE_S)
                return
            self._on_accepted(accepted, self.address if self._unix_path else f"tcp:{with_port(peer_host(name[0]), name[1])}")
            if self._resume is not None:
                return

    def pause(self, seconds: float) -> None:
        if self._socket.fileno() < 0:
            return
        if self._resume is None:
            self._loop.remove_reader(self._socket.fileno())
        else:
            self._resume.cancel()
        self._resume = self._loop.call_later(seconds, self._watch)

    def _watch(self) -> None:
        self._resume = None
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self.on_close is not None:
            self.on_close()
        if self._unix_path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._unix_path)


def parse_address(address: str) -> tuple[int, str | tuple[str, int]]:
    """The socket family and target of `unix:/path`, `tcp:host:port` or `tcp:[v6]:port`."""
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest:
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not port.isdecimal():
        raise ValueError(f"not an address: {address!r} (unix:/path or tcp:host:port)")
    if host.startswith("["):
        return socket.AF_INET6, (host.strip("[]"), int(port))
    return socket.AF_INET, (host, int(port))


async def _resolved(family: int, target: str | tuple[str, int]) -> tuple[int, str | tuple[str, int]]:
    """The same, with an address in the place of a name. Of a name's addresses, those of IPv4 come first. Raises OSError."""
    if family != socket.AF_INET:
        return family, target
    assert isinstance(target, tuple)
    try:
        socket.inet_pton(socket.AF_INET, target[0])
    except OSError:
        found = await asyncio.get_running_loop().getaddrinfo(*target, type=socket.SOCK_STREAM)
        family, _, _, _, name = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        return family, (str(name[0]), int(name[1]))
    return family, target


def _remove_stale(path: str) -> None:
    """Removes a socket file on which no process listens. A killed process leaves such a file behind."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "not a socket", path)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
