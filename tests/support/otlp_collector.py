"""A collector that takes OTLP over HTTP, for tests: it keeps what it is sent, or behaves as badly as it is told to."""

import contextlib
import gzip
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


class Manner(Enum):
    """How the collector answers."""

    TAKES = "takes"
    UNAVAILABLE = "answers 503"
    REFUSES = "answers 400"
    HANGS = "answers when it is closed"
    REDIRECTS = "answers with `redirect`"
    NEVER_ENDS = "takes, and its answer has no end"


@dataclass(frozen=True)
class CollectedSpan:
    """A span as it came. Ids are hexadecimal; `parent_id` is "" for a root."""

    resource: Mapping[str, Any]
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    error: str | None
    links: Sequence[tuple[str, str]]
    events: Sequence[str]


@dataclass
class OtlpCollector:
    """`with OtlpCollector() as collector:` serves `collector.endpoint` at a free port of loopback."""

    manner: Manner = Manner.TAKES
    redirect: tuple[int, str] = (307, "")
    """The status, and where it leads."""
    spans: list[CollectedSpan] = field(default_factory=list)
    requests: int = 0
    connections: int = 0
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def trace(self, trace_id: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.trace_id == trace_id]

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Returns the status of HTTP."""
        self.requests += 1
        self.headers.append(headers)
        match self.manner:
            case Manner.HANGS:
                self._closing.wait()
                return 503
            case Manner.UNAVAILABLE:
                return 503
            case Manner.REFUSES:
                return 400
            case Manner.REDIRECTS:
                return self.redirect[0]
        if path != "/v1/traces":
            return 404
        content = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        self.spans += _spans(ExportTraceServiceRequest.FromString(content))
        return 200


def _handler_of(collector: OtlpCollector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            collector.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = collector.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            if collector.manner is Manner.NEVER_ENDS:
                self._answer_without_end()
                return
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            if 300 <= status < 400:
                self.send_header("Location", collector.redirect[1])
            self.end_headers()
            self.wfile.write(answer)

        def _answer_without_end(self) -> None:
            self.close_connection = True
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not collector.is_closing:
                    self.wfile.write(bytes(65_536))

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _spans(request: ExportTraceServiceRequest) -> list[CollectedSpan]:
    return [
        CollectedSpan(
            _attributes(of_resource.resource.attributes),
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            (span.status.message or "error") if span.status.code == 2 else None,
            [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            [event.name for event in span.events],
        )
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
