"""A sink that keeps the last spans, in the order in which they were offered."""

from collections import deque
from collections.abc import Iterator, Sequence

from libs.telemetry.tracing.span import Span

SPANS_MAX = 2_048


class SpanRing:
    """The last spans of a process. Older ones are forgotten."""

    def __init__(self, spans_max: int = SPANS_MAX) -> None:
        self._spans: deque[Span] = deque(maxlen=spans_max)

    def offer(self, spans: Sequence[Span]) -> None:
        self._spans.extend(spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)
