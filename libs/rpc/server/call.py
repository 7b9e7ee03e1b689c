"""A request, as a handler gets it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from libs.lean_dataclass import dataclass
from libs.rpc.messages.envelope import EMPTY, Kind, pack_any, pack_body
from libs.rpc.messages.errors import Denied
from libs.rpc.transport.transport import Buffer, FileSlice


@dataclass(frozen=True, slots=True)
class Peer:
    """The caller, as its hello describes it. `uid` is set on Unix sockets. `connection` is a number of this server's own."""

    role: str
    node_id: int
    incarnation: int
    version: str
    feature_level: int
    cluster_id: str
    uid: int | None
    address: str
    connection: int

    def require_sender(self, node_id: int, incarnation: int, role: str | None = None) -> None:
        """Raises Denied unless a body that names its sender names this caller."""
        if (node_id, incarnation) != (self.node_id, self.incarnation) or role not in (None, self.role):
            named = f"{role or self.role} {node_id} in incarnation {incarnation}"
            raise Denied(f"{self.role} {self.node_id} in incarnation {self.incarnation} speaks for {named}")


class Answers(Protocol):
    def answer(
        self, call: "Call", kind: Kind, body: bytes, payload: Sequence[Buffer], files: Sequence[FileSlice], fds: Sequence[int]
    ) -> None: ...

    def answer_in_any_order(self, call: "Call", body: bytes, files: Sequence[FileSlice]) -> None: ...


class Call:
    """One request. Answer it once, from `accept` or at any later time. An answer after the first one or after a cancellation is
    dropped silently.

    `payload` is a writable view into the receive buffer, which can be used again only when it has no views. So drop the payload
    (or set it to `EMPTY`) as soon as its bytes have been stored. Answering drops it too.
    """

    __slots__ = (
        "_answers",
        "_on_cancel",
        "body",
        "cancelled",
        "cost",
        "deadline",
        "method",
        "payload",
        "peer",
        "received_at",
        "request_id",
        "trace",
    )

    def __init__(
        self,
        answers: Answers | None,
        peer: Peer,
        request_id: int,
        method: str,
        body: list[object],
        payload: memoryview,
        deadline: float,
        trace: bytes | None,
        cost: int,
        received_at: float,
    ) -> None:
        self._answers = answers  # None: answered, cancelled, or one-way
        self._on_cancel: list[Callable[[], None]] | None = None
        self.peer = peer
        self.request_id = request_id
        self.method = method
        self.body = body
        self.payload = payload
        self.deadline = deadline
        """In the time of `loop.time()`."""
        self.trace = trace
        self.cost = cost
        self.received_at = received_at
        """In the same time."""
        self.cancelled = False

    @property
    def open(self) -> bool:
        """Whether the caller still waits for the answer."""
        return self._answers is not None

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Sets a callback for the case that the caller disconnects or cancels before the answer. It is called once; at once, if
        that has happened already."""
        if self.cancelled:
            callback()
        elif self._on_cancel is None:
            self._on_cancel = [callback]
        else:
            self._on_cancel.append(callback)

    def reply(
        self,
        body: object,
        payload: Sequence[Buffer] = (),
        files: Sequence[FileSlice] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """`body` is a contract, a list, or packed already (bytes). `files` follow `payload` on the wire, as one payload.

        All descriptors are duplicated: the caller may close its own at once. Buffers must not change until they are sent.
        Without a free descriptor the call fails with KAFKA_STORAGE_ERROR. Nothing is raised, since a parked call has nobody who
        would catch it.
        """
        answers = self._answers
        if answers is not None:
            answers.answer(self, Kind.RESPONSE, pack_any(body), payload, files, descriptors)
            self._answers = None
            self._forget()

    def reply_in_any_order(self, body: object, files: Sequence[FileSlice]) -> None:
        """As `reply`, for files that may be on a slow disk. Later answers of the connection may overtake this one while a thread
        reads the beginning of each range. A range that cannot be read, or no free descriptor, fails the call with
        KAFKA_STORAGE_ERROR."""
        answers = self._answers
        if answers is not None:
            answers.answer_in_any_order(self, pack_any(body), files)
            self._answers = None
            self._forget()

    def fail(self, code: int, message: str) -> None:
        answers = self._answers
        if answers is not None:
            answers.answer(self, Kind.ERROR, pack_body((code, message)), (), (), ())
            self._answers = None
            self._forget()

    def cancel(self) -> None:
        """Cancels the call. Only the connection that it came by calls this."""
        if self._answers is None:
            return
        self._answers = None
        self.cancelled = True
        callbacks = self._on_cancel or ()
        self._forget()
        for callback in callbacks:
            callback()

    def _forget(self) -> None:
        self._on_cancel = None
        self.payload = EMPTY
