"""Zipkin's JSON over HTTP, version 2: https://zipkin.io/zipkin-api/#/default/post_spans

The format has no links, so they are annotations: `link TRACE/SPAN`.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from libs.telemetry.tracing.conventions import SERVICE_NAME
from libs.telemetry.tracing.exporting.collector import ExportFailed, FinishedSpan, ResourceSettings
from libs.telemetry.tracing.span import Attributes, SpanContext, SpanKind

TIMEOUT_S = 10.0
SAID_MAX = 200


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Python would follow some redirects with a GET, which has no spans. Any redirect is an HTTPError here."""

    def redirect_request(self, *_args: Any) -> None:
        return None


class ZipkinCollector:
    """A Zipkin server behind `endpoint`, e.g. `http://127.0.0.1:9411/api/v2/spans`."""

    def __init__(self, endpoint: str, resources: ResourceSettings) -> None:
        self._endpoint = endpoint
        self._resources = resources
        self._opener = urllib.request.build_opener(_NoRedirects)

    def send(self, batch: Sequence[FinishedSpan]) -> None:
        body = json.dumps([zipkin_span(each, self._resources) for each in batch]).encode()
        request = urllib.request.Request(self._endpoint, body, {"Content-Type": "application/json"})
        try:
            with self._opener.open(request, timeout=TIMEOUT_S):
                pass
        except urllib.error.HTTPError as error:
            with error:
                said = "a redirect is not followed" if error.code < 400 else error.read(SAID_MAX).decode(errors="replace")
            raise ExportFailed(f"HTTP {error.code}: {said}") from error
        except (OSError, http.client.HTTPException) as error:
            raise ExportFailed(str(error)) from error

    def close(self) -> None:
        """Nothing: no request is tried again."""


def zipkin_span(finished: FinishedSpan, resources: ResourceSettings) -> Mapping[str, object]:
    """A span as Zipkin has it. Times are in microseconds, and tags are texts."""
    span, resource = finished.span, dict(resources.of(finished.origin))
    service = str(resource.pop(SERVICE_NAME))
    zipkin: dict[str, object] = {
        "traceId": f"{span.context.trace_id:032x}",
        "id": f"{span.context.span_id:016x}",
        "name": span.name,
        "timestamp": span.start_ns // 1000,
        "duration": max(1, (span.end_ns - span.start_ns) // 1000),
        "localEndpoint": {"serviceName": service},
        "tags": {**_texts(resource), **_texts(span.attributes), **({} if span.error is None else {"error": span.error})},
        "annotations": [
            *({"timestamp": each.time_ns // 1000, "value": _annotation(each.name, each.attributes)} for each in span.events),
            *({"timestamp": span.start_ns // 1000, "value": _link(each.context, each.attributes)} for each in span.links),
        ],
    }
    if span.parent_id is not None:
        zipkin["parentId"] = f"{span.parent_id:016x}"
    if span.kind is not SpanKind.INTERNAL:
        zipkin["kind"] = span.kind.name
    return zipkin


def _texts(values: Attributes) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _link(context: SpanContext, attributes: Attributes) -> str:
    return _annotation(f"link {context.trace_id:032x}/{context.span_id:016x}", attributes)


def _annotation(name: str, attributes: Attributes) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in _texts(attributes).items())])
