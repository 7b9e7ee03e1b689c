"""One request on its way through the gateway: its place in the order, its client, its answer, and the shortcuts of its
connection."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from libs.cluster.client_quotas import FETCH
from libs.lean_dataclass import dataclass
from services.gateway.core.addresses import Addresses
from services.gateway.core.produced_partitions import ProducedPartitions
from services.gateway.core.routing import Routes
from services.gateway.core.session import Turn
from services.gateway.exchange.quota_use import KeptLimits, QuotaUse, Throttle
from services.gateway.exchange.request_context import RequestContext

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)
class FilePart:
    """Bytes of a file that leave by sendfile. `release` is called once: when they are sent, or when they never will be. The first
    `cached` bytes were in the page cache just now."""

    descriptor: int
    position: int
    length: int
    release: Callable[[], None]
    cached: int = 0

    def released(self, _sent: bool) -> None:
        """The stream's `on_sent` callback."""
        self.release()


Answer = bytes | bytearray | Sequence[Buffer | FilePart] | None
"""A whole response frame with its length prefix, in one piece or several. None: the request gets no answer (acks=0)."""


def drop_answer(answer: Answer) -> None:
    """Unpins the files of an answer that will never be sent."""
    if answer is not None and not isinstance(answer, (bytes, bytearray)):
        for part in answer:
            if isinstance(part, FilePart):
                part.release()


@dataclass(frozen=True, slots=True)
class WrittenBody:
    """A response whose body is written already, without its header. It has no error."""

    body: Buffer


class ClientConnection(Protocol):
    """The connection as a handler sees it through its exchange."""

    broker_id: int
    client_host: str
    client_id: str
    peer: str
    """The client's end of the connection: host and port."""
    listener: str
    software_name: str
    software_version: str
    known_addresses: Addresses
    """The broker addresses that the client knows, as far as this connection can tell."""
    produced: ProducedPartitions
    withheld_hints: int
    """The number of answers that could have carried endpoint hints and did not."""
    shortcuts: "ConnectionShortcuts"
    kept_limits: KeptLimits
    has_produced: bool
    """A Produce of a limited client has begun on it."""

    def finish(self, exchange: "Exchange", answer: Answer) -> None: ...

    def close(self, reason: str, detail: str = "") -> None: ...

    def mute(self, throttle: Throttle) -> None: ...

    def postpone(self, exchange: "Exchange", throttle: Throttle) -> None:
        """Begins a request after a mute, and no other before it."""
        ...

    def is_only_request(self, exchange: "Exchange") -> bool:
        """Whether no other request of this connection, earlier or later, has begun without its answer having left."""
        ...


class Exchange(Turn):
    """A request from its frame to its answer. Exactly one of `finish` and `close` ends it, once.

    `on_hang_up` is called when the client disconnects before the answer is known. `frame` becomes None when the request begins: a
    handler keeps its own views of what it needs.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "frame",
        "on_hang_up",
        "quota_use",
        "received_at",
        "sent_at",
    )

    answer: Answer

    def __init__(
        self, connection: ClientConnection, frame: memoryview, api_key: int, received_at: float, pipelined: bool
    ) -> None:
        super().__init__(pipelined, len(frame))
        self.connection = connection
        self.frame: memoryview | None = frame
        self.api_key = api_key
        self.api_version = 0
        self.correlation_id = 0
        self.client_id = ""
        # Both in loop time. `sent_at` 0.0: no other process was asked.
        self.received_at = received_at
        self.sent_at = 0.0
        self.on_hang_up: Callable[[], object] | None = None
        self.quota_use: QuotaUse | None = None

    def fetch_bytes_max(self, bytes_max: int) -> int:
        """The bytes that an answer to a Fetch may have: `bytes_max`, and a second of the client's quota at most. So no client
        gets more at once than it can pay for soon. KIP-74's first batch comes whole."""
        limit = self.quota_use.limits[FETCH] if self.quota_use is not None else None
        return bytes_max if limit is None or limit.rate >= bytes_max else max(1, int(limit.rate))

    def context(self) -> RequestContext:
        connection = self.connection
        return RequestContext(
            api_version=self.api_version,
            client_id=self.client_id,
            correlation_id=self.correlation_id,
            broker_id=connection.broker_id,
            client_host=connection.client_host,
            listener=connection.listener,
            peer=connection.peer,
            software_name=connection.software_name,
            software_version=connection.software_version,
            produced=connection.produced,
        )

    def finish(self, answer: Answer) -> None:
        self.on_hang_up = None
        self.connection.finish(self, answer)

    def close(self, reason: str, detail: str = "") -> None:
        """Ends the connection, for failures that no response can express."""
        self.on_hang_up = None
        self.connection.close(reason, detail)


class Shortcut(Protocol):
    """A way to begin a request that repeats an earlier one of its connection, without parsing it.

    The gate calls `renew`, if `generation` is not the newest; `match`; its own checks; `begin`. `begin` may only stage a request,
    as that of a Produce does: the connection flushes what was staged at the end of the turn. So later shortcuts may begin more
    than one request at the end of a read.
    """

    @property
    def version(self) -> int: ...
    @property
    def client_id(self) -> str: ...

    misses: int
    """The requests of its API that it did not begin."""

    @property
    def misses_max(self) -> int:
        """After so many misses another one is learnt in its place. A producer to many topics would otherwise pay for learning one
        with each request."""

    @property
    def generation(self) -> int:
        """What it depends on: all that it has looked up in an image, it looked up in the routes of this generation. It keeps no
        routes, since a connection may live for days, and would hold an old image all the while.

        A Fetch that is answered here also rests on its leader's incarnation, on the file that the leader named, and on an answer
        that is younger than `FRESH_S` (`services/gateway/core/sequential_reads.py`). `begin` checks these.
        """

    def renew(self, routes: Routes) -> None:
        """Looks it up again, in the routes of another image."""

    @property
    def match(self) -> Callable[[memoryview], Any]:
        """What `begin` needs of a frame that repeats the learnt one, whatever its correlation id. None: it must be parsed."""

    def begin(self, exchange: Exchange, match: Any) -> bool:
        """Begins the request. False: it must be parsed after all, since its answer may be an error. Nothing was begun."""


class ConnectionShortcuts:
    """The shortcuts that one connection's requests have taught, by API key. None is kept if they are switched off."""

    __slots__ = ("_enabled", "by_api")

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self.by_api: dict[int, Shortcut] = {}

    def wants(self, api_key: int) -> bool:
        """Whether the next request of that API, which is parsed, should teach one."""
        kept = self.by_api.get(api_key)
        return self._enabled and (kept is None or kept.misses >= kept.misses_max)

    def keep(self, api_key: int, shortcut: Shortcut | None) -> None:
        """Keeps what such a request taught. None: nothing."""
        if shortcut is not None:
            self.by_api[api_key] = shortcut
