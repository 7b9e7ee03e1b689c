"""The port for streams: the output path of a connection, by which bytes, file ranges and descriptors leave.

Real: `socket_transport.SocketTransport`. Client connections of the gateway and RPC connections both use it. Addresses are
`unix:/path` and `tcp:host:port`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from libs.rpc.files.passed_files import PassedFiles

Buffer = bytes | bytearray | memoryview
FileSlice = tuple[int, int, int]
"""(descriptor, position, length)"""

KERNELS_CHOICE: Final = -1
"""The size of a socket's buffer that the kernel chooses, and changes as it is used."""
SILENCE_S: Final = 2.0
"""How long a server may be silent, where nobody says otherwise."""


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
        self, address: str, on_stream: Callable[[Stream], Receiver], *, send_buffer_bytes: int = KERNELS_CHOICE
    ) -> Listener:
        """`send_buffer_bytes`: the send buffer of each TCP stream that is accepted."""
        ...
