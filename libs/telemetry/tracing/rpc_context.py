"""The `trace` field of an RPC header: which spans of its sender the request belongs to. Pure.

One request may carry several clients' batches, so it carries several contexts, each with the index of its batch. A request that
is about one thing carries one, with index 0. Only sampled contexts travel: others are derived (`ids.py`).
"""

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from libs.telemetry.tracing.span import SpanContext

CONTEXTS_MAX: Final = 8
"""The most contexts of one request."""

_ENTRY: Final = struct.Struct(">HQQQ")
_INDEX_MAX: Final = 0xFFFF
_LOW_HALF: Final = (1 << 64) - 1

NO_CONTEXTS: Final[Mapping[int, SpanContext]] = MappingProxyType({})

Indexed = tuple[int, SpanContext]
"""The index of a batch in its request, and the context of the span that sends it."""


def pack_contexts(contexts: Sequence[Indexed]) -> bytes | None:
    """The first eight of them, 26 bytes each. None for none."""
    packed = [
        _ENTRY.pack(index, context.trace_id >> 64, context.trace_id & _LOW_HALF, context.span_id)
        for index, context in contexts[:CONTEXTS_MAX]
        if index <= _INDEX_MAX
    ]
    return b"".join(packed) or None


def unpack_contexts(packed: bytes | None) -> list[Indexed]:
    """The contexts of a request. What is malformed, or beyond the first eight, is left out."""
    if packed is None:
        return []
    whole = min(len(packed) // _ENTRY.size, CONTEXTS_MAX) * _ENTRY.size
    return [
        (index, SpanContext(high << 64 | low, span_id))
        for index, high, low, span_id in _ENTRY.iter_unpack(packed[:whole])
        if (high or low) and span_id
    ]


def first_contexts(packed: bytes | None) -> Mapping[int, SpanContext]:
    """Of each batch the first context, by the batch's index."""
    return dict(reversed(unpack_contexts(packed))) if packed is not None else NO_CONTEXTS


def pack_context(context: SpanContext) -> bytes | None:
    """The context of a request that is about one thing."""
    return pack_contexts([(0, context)])


def unpack_context(packed: bytes | None) -> SpanContext | None:
    """The first context of a request. None: it carries none."""
    contexts = unpack_contexts(packed)
    return contexts[0][1] if contexts else None
