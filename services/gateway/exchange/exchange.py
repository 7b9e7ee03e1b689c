"""One request on its way through the gateway: its place in the order, who asked, and where the answer goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.gateway.core.addresses import Addresses
from services.gateway.core.relay_shape import RelayShape
from services.gateway.core.session import Turn
from services.gateway.state import RequestContext

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)
class FilePart:
    """Bytes of a file that go out by sendfile. `release` is called once, when they are sent or never will be."""

    descriptor: int
    position: int
    length: int
    release: Callable[[], None]

    def released(self, _sent: bool) -> None:
        """As a stream's `on_sent`."""
        self.release()


Answer = bytes | bytearray | Sequence[Buffer | FilePart] | None
"""A whole response frame, length prefix included, in one piece or several. None: this request gets none (acks=0)."""


def drop_answer(answer: Answer) -> None:
    """For an answer that will never be sent: unpins the files in it."""
    if answer is not None and not isinstance(answer, (bytes, bytearray)):
        for part in answer:
            if isinstance(part, FilePart):
                part.release()


class Asker(Protocol):
    """The connection, as a handler sees it through its exchange."""

    broker_id: int
    client_host: str
    peer: str
    """The client's end: host and port."""
    listener: str
    software_name: str
    software_version: str
    told: Addresses
    """Of the brokers, as its client knows them, as far as this connection can tell."""
    withheld: int
    """Answers that could have told it of others."""

    def finish(self, exchange: "Exchange", answer: Answer) -> None: ...

    def close(self, reason: str, detail: str = "") -> None: ...

    def relayed_like(self, api_key: int, shape: RelayShape) -> None:
        """What its next request of that API may be like."""
        ...

    def is_alone(self, exchange: "Exchange") -> bool:
        """Whether no other request of this connection, earlier or later, has begun without its answer having left."""
        ...


class Exchange(Turn):
    """A request from its frame to its answer. Exactly one of `finish` and `close` ends it, once.

    `on_hang_up` is called when the client is gone before the answer is known. `frame` is None once it was begun: what a
    handler keeps of it, it keeps by views of its own.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "frame",
        "on_hang_up",
        "received_at",
        "sent_at",
    )

    answer: Answer

    def __init__(self, connection: Asker, frame: memoryview, api_key: int, received_at: float, pipelined: bool) -> None:
        super().__init__(pipelined, len(frame))
        self.connection = connection
        self.frame: memoryview | None = frame
        self.api_key = api_key
        self.api_version = 0
        self.correlation_id = 0
        self.client_id = ""
        # In loop time. 0.0: no storage node was asked.
        self.received_at = received_at
        self.sent_at = 0.0
        self.on_hang_up: Callable[[], None] | None = None

    def context(self) -> RequestContext:
        asker = self.connection
        return RequestContext(
            api_version=self.api_version,
            client_id=self.client_id,
            correlation_id=self.correlation_id,
            broker_id=asker.broker_id,
            client_host=asker.client_host,
            listener=asker.listener,
            peer=asker.peer,
            software_name=asker.software_name,
            software_version=asker.software_version,
        )

    def finish(self, answer: Answer) -> None:
        self.on_hang_up = None
        self.connection.finish(self, answer)

    def close(self, reason: str, detail: str = "") -> None:
        """For what a client may not hear about: the connection ends instead."""
        self.on_hang_up = None
        self.connection.close(reason, detail)
