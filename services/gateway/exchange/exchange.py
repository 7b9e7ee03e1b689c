"""One request on its way through the gateway: its place in the order, its client, its answer, and the shortcuts of its
connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from libs.cluster.client_quotas import FETCH
from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import SpanContext
from services.gateway.core.addresses import Addresses
from services.gateway.core.fetch_plan import NOTHING_DENIED
from services.gateway.core.produced_partitions import ProducedPartitions
from services.gateway.core.request_spans import AnsweredRequest, Subject
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
    principal: str
    software_name: str
    software_version: str
    known_addresses: Addresses
    """The broker addresses that the client knows, as far as this connection can tell."""
    produced: ProducedPartitions
    withheld_hints: int
    """The number of answers that could have carried endpoint hints and did not."""
    shortcuts: "ConnectionShortcuts"
    acl_generation: int
    """The generation of ACLs by which the requests were allowed that taught `shortcuts`."""
    kept_limits: KeptLimits
    has_produced: bool
    """A Produce of a limited client has begun on it."""

    def finish(self, exchange: "Exchange", answer: Answer) -> None: ...

    def close(self, reason: str, detail: str = "", user: str = "") -> None: ...

    def mute(self, throttle: Throttle) -> None: ...

    def postpone(self, exchange: "Exchange", throttle: Throttle) -> None:
        """Begins a request after a mute, and no other before it."""
        ...

    def is_only_request(self, exchange: "Exchange") -> bool:
        """Whether no other request of this connection, earlier or later, has begun without its answer having left."""
        ...

    def leaves_next(self, exchange: "Exchange", behind: "Exchange | None") -> bool:
        """Whether its answer waits for none of an earlier request, or for that of `behind` alone, and is not logged by itself."""
        ...

    def join(self, exchange: "Exchange", size: int) -> None:
        """Lets a request of `size` bytes share the place of an unanswered one, and its answer."""
        ...

    def part(self, exchange: "Exchange", exchanges: Sequence["Exchange"]) -> None:
        """Gives the requests that have joined an unanswered one places of their own."""
        ...


class RequestTrace(NamedTuple):
    """The trace of a request that somebody decided on in advance."""

    context: SpanContext
    """Of the gateway's own span for the request."""
    parent_id: int | None
    """The client's span. None: the client traces nothing."""
    reason: Reason


class AnsweredTrace(NamedTuple):
    """The trace of a request whose answer is on its way to the client."""

    root: SpanContext
    parent_id: int | None
    request: AnsweredRequest


class Asked(Protocol):
    """An RPC request that was made for clients' requests. Its trace is made of it afterwards."""

    request_id: int
    sent_at: float
    """Loop time, as the next."""
    answered_at: float
    """0.0: there was no answer yet."""

    @property
    def method(self) -> str: ...

    @property
    def server(self) -> str:
        """The process that was asked (`libs/telemetry/tracing/ids.py:process_name`)."""

    def part_of(self, exchange: "Exchange") -> int:
        """Which part of it was made for this request."""

    def context_of(self, exchange: "Exchange") -> SpanContext | None:
        """The context that was sent for this request. None: none was."""

    def subject_of(self, exchange: "Exchange") -> Subject: ...


class CheckedRequest(NamedTuple):
    """A Produce or a Fetch that the authorizer has looked at."""

    request: Any
    denied: Mapping[str | bytes, int]
    """The errors of topics that its client may not use, by id where the request has ids, else by name."""


class Run(Protocol):
    """Requests that have joined the exchange of one before them (`services/gateway/shortcuts/produce_run.py`)."""

    answer_bytes: int
    """The bytes of each answer, which are as many for all. It is set when they are written."""

    @property
    def requests(self) -> int:
        """All of them, also when they were parted since."""

    def apart(self, exchange: "Exchange") -> Sequence["Exchange"]:
        """That exchange, and one for each request that has joined it, in their order."""


ASKED_MAX: Final = 8
"""The RPC requests of one request that its trace shows. One that waits for a leader may be sent a hundred times."""


class Exchange(Turn):
    """A request from its frame to its answer. Exactly one of `finish` and `close` ends it, once.

    `on_hang_up` is called when the client disconnects before the answer is known. `frame` becomes None when the request begins: a
    handler keeps its own views of what it needs.
    """

    __slots__ = (
        "answered_at",
        "answered_trace",
        "api_key",
        "api_version",
        "asked",
        "authorized",
        "began_at",
        "checked",
        "client_id",
        "connection",
        "correlation_id",
        "disk_wait_s",
        "ends_at",
        "error",
        "frame",
        "left_at",
        "on_hang_up",
        "quota_use",
        "received_at",
        "run",
        "sent_at",
        "throttled_s",
        "trace",
        "trace_id",
        "waited_as_asked_s",
    )

    answer: Answer
    answered_at: float
    """Loop time, as the other times: when the answer was known."""
    left_at: float
    """When the answer was written to the stream, behind those of earlier requests."""
    ends_at: int
    """The bytes that the stream has sent once the answer is sent."""

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
        self.received_at = received_at
        self.began_at = received_at  # unless it had to wait
        self.sent_at = 0.0  # 0.0: no other process was asked (`note_asked`)
        self.trace_id = 0  # of the trace that was made of it. 0: none was
        self.throttled_s = 0.0  # how long the client was told to wait after the answer
        self.on_hang_up: Callable[[], object] | None = None
        self.authorized: tuple[float, float] | None = None  # from when to when the authorizer decided. None: it was not asked
        self.checked: CheckedRequest | None = None  # None: there is no authorizer, or it has no part in this request
        self.quota_use: QuotaUse | None = None
        self.trace: RequestTrace | None = None
        self.answered_trace: AnsweredTrace | None = None
        self.asked: tuple[Asked, ...] = ()
        """The connection drops them with the answer: they may refer back to this."""
        self.run: Run | None = None
        """None: no request has joined it, or they were parted before they were answered."""
        self.error = 0
        """One of the errors in its answer."""
        self.disk_wait_s = 0.0
        """How long ranges of files held up the answers of its connection while this one left: its own, or earlier ones."""
        self.waited_as_asked_s = 0.0
        """The time for which the client let it wait: a long poll is not slow."""

    @property
    def denied(self) -> Mapping[str | bytes, int]:
        """The errors of topics that the client may not use."""
        return self.checked.denied if self.checked is not None else NOTHING_DENIED

    def apart(self) -> Sequence["Exchange"]:
        """The requests that go by this exchange, in their order. Those that are not answered yet are parted by this."""
        return (self,) if self.run is None else self.run.apart(self)

    def asks(self, asked: Asked) -> None:
        """Notes that another process was asked."""
        if len(self.asked) < ASKED_MAX:
            self.asked = (*self.asked, asked)

    def note_asked(self, now: float) -> None:
        """Another process is asked, or waited for. Its first such time counts."""
        if not self.sent_at:
            self.sent_at = now

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
            principal=connection.principal,
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
