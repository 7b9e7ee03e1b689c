"""A sink of spans that fails, as a fault anywhere in the code that makes them would."""

from collections.abc import Sequence

from libs.telemetry.tracing.span import Span
from tests.support.span_ring import SpanRing


class FailingSpans(SpanRing):
    def __init__(self) -> None:
        super().__init__()
        self.failed = 0

    def offer(self, spans: Sequence[Span]) -> None:
        self.failed += 1
        raise RuntimeError("spans cannot be kept")
