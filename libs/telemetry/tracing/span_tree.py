"""The spans of one trace in one process: a root, and the steps below it."""

from collections.abc import Callable, Sequence

from libs.telemetry.tracing.span import Attributes, Link, Span, SpanContext, SpanEvent, SpanKind

ATTRIBUTE_CHARS_MAX = 256
"""The most of a text that clients choose."""


class SpanTree:
    """Collects `spans`, from times in seconds of the loop. A `child` is one of the root, unless it names another parent."""

    __slots__ = ("_epoch_ns", "_next_id", "_parent_id", "_root", "spans")

    def __init__(self, root: SpanContext, parent_id: int | None, epoch_ns: int, next_id: Callable[[], int]) -> None:
        """`epoch_ns`: what to add to the loop's nanoseconds for wall time."""
        self._root = root
        self._parent_id = parent_id
        self._epoch_ns = epoch_ns
        self._next_id = next_id
        self.spans: list[Span] = []

    def root(
        self,
        name: str,
        start: float,
        end: float,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.SERVER,
        error: str | None = None,
        links: Sequence[Link] = (),
        events: Sequence[SpanEvent] = (),
    ) -> None:
        self._add(self._root.span_id, self._parent_id, name, kind, start, end, attributes, error, links, events)

    def child(
        self,
        name: str,
        start: float,
        end: float,
        attributes: Attributes | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        span_id: int | None = None,
        parent_id: int | None = None,
        error: str | None = None,
        links: Sequence[Link] = (),
    ) -> int:
        """Returns its span id, for children of its own."""
        own_id = span_id if span_id is not None else self._next_id()
        parent = parent_id if parent_id is not None else self._root.span_id
        self._add(own_id, parent, name, kind, start, end, attributes or {}, error, links, ())
        return own_id

    def _add(
        self,
        span_id: int,
        parent_id: int | None,
        name: str,
        kind: SpanKind,
        start: float,
        end: float,
        attributes: Attributes,
        error: str | None,
        links: Sequence[Link],
        events: Sequence[SpanEvent],
    ) -> None:
        context = SpanContext(self._root.trace_id, span_id, self._root.sampled)
        start_ns = self.wall_ns(start)
        end_ns = max(start_ns, self.wall_ns(end))
        self.spans.append(Span(context, parent_id, name, kind, start_ns, end_ns, attributes, error, links, events))

    def wall_ns(self, at: float) -> int:
        return self._epoch_ns + int(at * 1e9)
