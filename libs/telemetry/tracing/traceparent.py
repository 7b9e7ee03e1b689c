"""W3C Trace Context (https://www.w3.org/TR/trace-context/): `traceparent` as text. Pure.

`tracestate` is left out: it is for other vendors' systems, and no request goes from here to one.
"""

import re
from typing import Final

from libs.telemetry.tracing.span import SpanContext

TRACEPARENT: Final = "traceparent"
"""The name of the record header."""
TRACEPARENT_BYTES_MAX: Final = 256
"""The most that is parsed. Version 00 has 55 bytes; a later one may have more."""

_SAMPLED: Final = 0x01
_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)


def parse_traceparent(text: bytes) -> SpanContext:
    """The context of a caller. Raises ValueError for anything that the specification calls invalid.

    A later version is read as version 00, and what follows its first four fields is left out, as the specification demands.
    """
    form = _FORM.fullmatch(text) if len(text) <= TRACEPARENT_BYTES_MAX else None
    if form is None:
        raise ValueError(f"no traceparent: {text[:64]!r}")
    version, trace_id, span_id, flags, rest = form.groups()
    if version == b"ff" or (version == b"00" and rest):
        raise ValueError(f"a traceparent that version {version.decode()} does not allow")
    context = SpanContext(int(trace_id, 16), int(span_id, 16), int(flags, 16) & _SAMPLED != 0)
    if not context.trace_id or not context.span_id:
        raise ValueError("a traceparent with an id of zeros")
    return context


def format_traceparent(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.sampled:02x}"
