"""The port for streams: who owns the output path of a connection, and how bytes, file ranges and descriptors leave by it.

Real: `socket_transport.SocketTransport`. Client connections of the gateway and RPC connections both use it. Addresses are
`unix:/path` and `tcp:host:port`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Receiver(Protocol):
    """What a stream tells its owner. Never called from inside a call that the owner makes, `write` and `close` included."""

    def get_buffer(self) -> memoryview:
        """Where to receive to. Called only when there is something to receive; never empty."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """One turn: so many bytes arrived. Everything written before this returns leaves in one system call."""
        ...

    def descriptors_received(self, fds: list[int]) -> None:
        """They are the receiver's to close. Comes before `buffer_updated` for the bytes that they were sent with."""
        ...

    def write_ready(self) -> None:
        """`pending_bytes` is below the low-water mark again, after it was above."""
        ...

    def connection_lost(self, reason: Exception | None) -> None:
        """The last call, made once. None: closed by us, or in an orderly way by the peer."""
        ...


class Stream(Protocol):
    """One connection. Not thread-safe. Whatever is written after the end is dropped quietly."""

    @property
    def peer(self) -> str: ...

    @property
    def is_unix(self) -> bool: ...

    @property
    def peer_uid(self) -> int | None:
        """Of the process at the other end of a Unix socket, else None."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Written, file ranges included, but not yet taken by the kernel."""
        ...

    @property
    def bytes_sent(self) -> int:
        """Taken by the kernel since the connection was made. Valid after its end too."""
        ...

    @property
    def closing(self) -> bool:
        """`close` or `abort` was called, or the connection is lost."""
        ...

    def write(self, *buffers: Buffer) -> None:
        """Queues views, which must not change until sent. They leave at the end of the turn, or soon when there is none."""
        ...

    def write_file(self, fd: int, position: int, length: int, on_sent: Callable[[bool], None] | None = None) -> None:
        """Queues a file range. The caller keeps `fd` open until `on_sent(True)`, or `on_sent(False)` at the end."""
        ...

    def hold_files(self, fds: Sequence[int]) -> list[int]:
        """Other descriptors of the same files, to be given to `write_file`, and each to `let_go` at the end: the caller may close
        its own at once. Raises OSError, and holds none then."""
        ...

    def let_go(self, fd: int) -> None: ...

    def attach_descriptors(self, fds: Sequence[int]) -> None:
        """They ride with the buffer that is written next. Duplicated here: the caller may close its own at once. Unix only."""
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
        """Where it listens really: port 0 became a number."""
        ...

    def close(self) -> None:
        """Accepts no more. Streams that were accepted live on."""
        ...


class Transport(Protocol):
    async def connect(self, address: str, receiver_factory: Callable[[Stream], Receiver], timeout_s: float) -> Stream:
        """Raises OSError, TimeoutError included."""
        ...

    async def listen(self, address: str, on_stream: Callable[[Stream], Receiver]) -> Listener: ...
