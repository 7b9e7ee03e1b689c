"""The port for streams: the output path of a connection, by which bytes, file ranges and descriptors leave.

Real: `socket_transport.SocketTransport`. Client connections of the gateway and RPC connections both use it. Addresses are
`unix:/path` and `tcp:host:port`.
"""

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from libs.lean_dataclass import dataclass
from libs.rpc.files.passed_files import PassedFiles

if TYPE_CHECKING:
    from libs.rpc.transport.frame_link import LinkEnd
    from libs.rpc.transport.peer_tls import PeerTls
    from libs.rpc.transport.tls_server import TlsServer

Buffer = bytes | bytearray | memoryview
FileSlice = tuple[int, int, int]
"""(descriptor, position, length)"""

KERNELS_CHOICE: Final = -1
"""The size of a socket's buffer that the kernel chooses, and changes as it is used."""
DRIP_BYTES: Final = 512
"""The most bytes that a receiver may ask to wait for. Slow clients send fewer at a time, and cost a turn for each otherwise."""
SILENCE_S: Final = 2.0
"""How long a server may be silent, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class TlsSession:
    """What a TLS handshake has agreed on."""

    version: str
    cipher: str
    peer_certificate: bytes | None
    """The certificate that the other end has shown, in DER. None: it has none, or was not asked for it."""
    peer_uris: Sequence[str] = ()
    """The URIs that this certificate names."""


class TlsFailed(ConnectionError):
    """The reason of a connection whose TLS was not agreed on, or was misused. Its text is a sentence for the operator."""

    def __init__(self, sentence: str, begins_with: bytes = b"") -> None:
        """`begins_with`: the first bytes, if the other end does not speak TLS at all."""
        super().__init__(sentence)
        self.begins_with = begins_with


class Receiver(Protocol):
    """The owner of a stream, which the stream calls. It is never called from inside a call that it makes, `write` and `close`
    included."""

    def get_buffer(self) -> memoryview:
        """The buffer to receive into. It is asked for only when there is something to receive, and is never empty."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """Handles the `nbytes` that arrived in one turn. All writes before this returns leave in one system call."""
        ...

    def descriptors_received(self, fds: list[int] | None) -> None:
        """Takes the descriptors of one `attach_descriptors`, which the receiver closes. It is called before `buffer_updated` for
        the bytes that came with them. None: this process had no room for all of them, and has none."""
        ...

    def write_ready(self) -> None:
        """Called when `pending_bytes` is below the low-water mark again, after it was above."""
        ...

    def connection_lost(self, reason: Exception | None) -> None:
        """The last call, made once. `reason` None: the stream was closed by us, or in an orderly way by the peer."""
        ...


class Stream(Protocol):
    """One connection. It is not thread-safe. Writes after the end are dropped silently."""

    @property
    def peer(self) -> str: ...

    @property
    def is_unix(self) -> bool: ...

    @property
    def peer_uid(self) -> int | None:
        """The user id of the process at the other end of a Unix socket, else None."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes written, file ranges included, that the kernel has not taken yet."""
        ...

    @property
    def pending_file_bytes(self) -> int:
        """Those of `pending_bytes` that are file ranges, and take no memory."""
        ...

    @property
    def bytes_sent(self) -> int:
        """Bytes that the kernel has taken since the connection was made. It is valid after the end too."""
        ...

    @property
    def disk_wait_s(self) -> float:
        """The seconds for which file ranges have held the stream up until a thread had read them from a disk."""
        ...

    on_flushed: Callable[[], None] | None
    """Called after each flush, when `bytes_sent` may have grown. If it raises, the connection ends."""

    on_secured: Callable[[], None] | None
    """Called once TLS is agreed on, before anything is received. If it raises, the connection ends."""

    @property
    def link(self) -> "LinkEnd | None":
        """The way of frames to the other end, if it is in this process."""
        ...

    @property
    def tls(self) -> TlsSession | None:
        """None: the connection is not encrypted, not yet, or no more."""
        ...

    @property
    def reading(self) -> bool:
        """Whether its receiver takes what arrives."""
        ...

    @property
    def peer_ended(self) -> bool:
        """Whether the other end of a TCP connection has ended its side. It is known also while nothing is read here."""
        ...

    @property
    def closing(self) -> bool:
        """Whether `close` or `abort` was called, or the connection is lost."""
        ...

    def write(self, *buffers: Buffer) -> None:
        """Queues views, which must not change until sent. They leave at the end of the turn, or soon when there is none."""
        ...

    def write_file(
        self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None = None, *, cached: int = 0
    ) -> None:
        """Queues a file range. The caller keeps `fd` open until `on_sent(True)`, or `on_sent(False)` at the end. Its first
        `cached` bytes were in the page cache just now."""
        ...

    def read_ahead(
        self, fd: int, position: int, length: int, on_end: Callable[[Exception | None], None]
    ) -> Callable[[], bool] | None:
        """Has a thread read the beginning of a file range into the page cache: the `WINDOW` that is sent first. Calls `on_end`
        then, and the caller keeps `fd` open until then. Raises OSError.

        None: it is there already. Else a function that takes the read back. If that returns True, no thread had begun it, and
        `on_end` is not called.
        """
        ...

    def hold_files(self, fds: Sequence[int]) -> list[int]:
        """Duplicates descriptors of files, for `write_file`. Each duplicate must be given to `let_go` at the end; the caller may
        close its own at once. Raises OSError, and then holds none."""
        ...

    def let_go(self, fd: int) -> None:
        """Closes a duplicate, or a descriptor that was received."""
        ...

    def attach_descriptors(self, fds: Sequence[int]) -> None:
        """Sends descriptors with the buffer that is written next. They are duplicated here, so the caller may close its own at
        once. Unix sockets only."""
        ...

    def flush(self) -> None:
        """Sends now what can be sent, without waiting for the end of the turn."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def receive_at_least(self, nbytes: int) -> None:
        """Calls the receiver only when so many bytes have arrived, `DRIP_BYTES` at most, or the end. A hint: fewer may come. It
        holds until the next call. 1: as at first."""
        ...

    def close(self) -> None:
        """Reads no more, sends what is queued, then closes."""
        ...

    def abort(self, reason: Exception) -> None:
        """Closes at once. `connection_lost(reason)` follows soon."""
        ...


class Listener(Protocol):
    @property
    def address(self) -> str:
        """The actual address: port 0 has become a number."""
        ...

    @property
    def listening(self) -> socket.socket:
        """The socket itself, for a process that is to keep it (`Transport.adopt`). Real transports only."""
        ...

    def pause(self, seconds: float) -> None:
        """Accepts no stream for so long from now on. Those that come meanwhile wait in the kernel, as far as it has room."""
        ...

    def close(self) -> None:
        """Accepts no more streams. Streams that were accepted stay open."""
        ...


class Transport(Protocol):
    @property
    def silence_s(self) -> float:
        """How long a server may be silent while calls to it are under way. Then the caller ends the connection."""
        ...

    @property
    def peer_tls(self) -> "PeerTls | None":
        """The TLS that TCP connections between processes speak. None: they speak none."""
        ...

    @property
    def passed_files(self) -> PassedFiles:
        """Reads the files whose descriptors its streams receive."""
        ...

    def has_socket(self, path: str) -> bool:
        """Whether this process sees a Unix socket of this name. Two containers may share a kernel, and no directory."""
        ...

    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        """Raises OSError, TimeoutError included."""
        ...

    async def listen(
        self,
        address: str,
        on_stream: Callable[[Stream], Receiver],
        *,
        send_buffer_bytes: int = KERNELS_CHOICE,
        tls: "TlsServer | None" = None,
    ) -> Listener:
        """`send_buffer_bytes`: the send buffer of each TCP stream that is accepted. `tls`: each stream speaks TLS."""
        ...

    def adopt(
        self, listening: socket.socket, on_stream: Callable[[Stream], Receiver], *, tls: "TlsServer | None" = None
    ) -> Listener:
        """Accepts from a socket that another process opened, and that may go on accepting too. Owns it from now on. Real
        transports only."""
        ...
