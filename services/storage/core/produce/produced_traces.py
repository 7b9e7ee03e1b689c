"""The traces of the last appends that have one, so that fetches of their records can link to them."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from libs.telemetry.tracing.span import SpanContext

TRACES_MAX = 512
LINKS_MAX = 8
"""The most links of one fetch."""


class ProducedTraces:
    """Those of all partitions of a node. The oldest are forgotten."""

    __slots__ = ("_entries",)

    def __init__(self, traces_max: int = TRACES_MAX) -> None:
        self._entries: deque[tuple[tuple[bytes, int], int, SpanContext]] = deque(maxlen=traces_max)

    def note(self, key: tuple[bytes, int], base_offset: int, context: SpanContext) -> None:
        """A batch of the partition has this span."""
        self._entries.append((key, base_offset, context))

    def between(self, key: tuple[bytes, int], first_offset: int, end_offset: int) -> list[SpanContext]:
        """The newest spans of batches that begin there."""
        return list(islice(self._of(key, first_offset, end_offset), LINKS_MAX))

    def _of(self, key: tuple[bytes, int], first_offset: int, end_offset: int) -> Iterator[SpanContext]:
        for of_key, offset, context in reversed(self._entries):
            if of_key == key and first_offset <= offset < end_offset:
                yield context
