"""Traces at simulated storage nodes. Their spans are checked as they are made, and kept nowhere."""

from collections.abc import Sequence

from libs.clock import Clock
from libs.cluster.records import STORAGE
from libs.runtime.process import Identity, span_recorder
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span


class CheckedSpans:
    """A sink. Each trace must be a tree: one root, every parent known, and no step longer than the root."""

    def offer(self, spans: Sequence[Span]) -> None:
        root, *steps = spans
        ids = {span.context.span_id for span in spans}
        assert len(ids) == len(spans), "two spans with one id"
        assert root.parent_id not in ids, "the first span is the root"
        for step in steps:
            assert step.parent_id in ids, f"{step.name} has no parent"
            assert step.context.trace_id == root.context.trace_id, f"{step.name} is of another trace"
            assert root.start_ns <= step.start_ns <= step.end_ns <= root.end_ns, f"{step.name} is longer than its root"


def checked_recorder(node_id: int, incarnation: int, clock: Clock) -> SpanRecorder:
    """That of a simulated storage node."""
    identity = Identity(STORAGE, node_id, incarnation, "", "")
    return span_recorder(identity, Tracing(TraceRules(), CheckedSpans()), clock)
