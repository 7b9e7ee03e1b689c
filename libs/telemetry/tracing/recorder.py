"""What a process records spans with: its rules, its sink, the cap, and wall times for the loop times of stages."""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from random import Random

from libs.clock import Clock
from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.ids import random_span_id
from libs.telemetry.tracing.sampling import (
    FAILED_PER_SECOND,
    LOOKS_PER_SECOND,
    Allowance,
    FractionSampler,
    TraceRules,
)
from libs.telemetry.tracing.span import Span, SpanContext, SpanSink
from libs.telemetry.tracing.span_tree import SpanTree
from libs.telemetry.tracing.trace_ring import TraceRing

SPANS_OF_A_TRACE = 8
"""About as many as one process makes for one request."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """The traces of a process, as its environment has them: which requests have any, and who takes the spans."""

    rules: TraceRules
    sink: SpanSink
    ring: TraceRing = field(default_factory=TraceRing)
    """The last traces, for views. The sink fills it."""


def default_tracing() -> Tracing:
    ring = TraceRing()
    return Tracing(TraceRules(), ring, ring)


class SpanRecorder:
    """Records the spans of one process. `loop_time` are the seconds in which stages are told, the loop's."""

    def __init__(self, tracing: Tracing, process: str, clock: Clock, loop_time: Callable[[], float]) -> None:
        """`process`: role, node id and incarnation, which no other process has."""
        rules = tracing.rules
        self.rules = rules
        self.process = process
        self.random = Random(process)
        self.sampler = FractionSampler(rules.sample_ratio if rules.spans_per_second else 0.0, self.random)
        self.looks = Allowance(LOOKS_PER_SECOND if rules.spans_per_second else 0)
        """How often a batch is searched for its client's context."""
        self.contexts = 0
        """The contexts of clients that were read."""
        self.malformed_contexts = 0
        self._failures = Allowance(FAILED_PER_SECOND)
        self._spans = Allowance(rules.spans_per_second)
        self._reserve = rules.spans_per_second // 2
        """What traces that were decided in advance leave to slow and failed requests."""
        self._sink = tracing.sink
        self._clock = clock
        self._loop_time = loop_time
        self.recorded = 0

    @property
    def refused(self) -> int:
        """The spans beyond the cap."""
        return self._spans.refused

    def traces_failure(self, now: float, *, client_caused: bool) -> bool:
        """Whether a request that failed has a trace for that. Only those that clients cause at will are limited by rate."""
        if not self.rules.spans_per_second:
            return False
        return not client_caused or self._failures.takes(1, now)

    def admits(self, now: float, *, in_advance: bool = False) -> bool:
        """Whether another trace may have spans. Ask before the work for them: a slow disk makes a thousand requests slow.

        `in_advance`: the request is neither slow nor failed. Such ones have half of the cap, so they hide none of the others.
        """
        cap = self.rules.spans_per_second
        reserve = self._reserve if in_advance else 0
        if cap and self._spans.has(reserve + min(SPANS_OF_A_TRACE, cap - reserve), now):
            return True
        self._spans.refused += SPANS_OF_A_TRACE
        return False

    def tree(self, root: SpanContext, parent_id: int | None) -> SpanTree:
        """An empty tree. Its wall times are by the wall clock of now, which may jump."""
        epoch_ns = self._clock.wall_ns() - int(self._loop_time() * 1e9)
        return SpanTree(root, parent_id, epoch_ns, partial(random_span_id, self.random))

    def record(self, spans: Sequence[Span]) -> None:
        """Gives the spans of one trace to the sink, unless they are beyond the cap. A trace larger than the cap is cut."""
        first = spans[: self.rules.spans_per_second]
        if self._spans.takes(len(first), self._loop_time()):
            self._spans.refused += len(spans) - len(first)
            self.recorded += len(first)
            self._sink.offer(first)
