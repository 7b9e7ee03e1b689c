"""The second phase of a transaction's end as spans: its markers, and the record that completes it.

    EndTxn decided                its client's request, which was answered when the outcome was committed
      append
      write markers               from then on, until each partition has its marker
        marker orders-0
      complete                    until the completion is committed
        append

The second phase has a trace if its EndTxn has one that somebody decided on, or if it is slow: then it is a trace of its own.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Final, NamedTuple

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import random_context, random_span_id
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import AttributeValue, SpanContext, SpanKind
from libs.telemetry.tracing.span_tree import ATTRIBUTE_CHARS_MAX, SpanTree
from libs.wire.api_keys import ApiKey
from libs.wire.errors import error_name
from services.transaction_coordinator.core.transaction import TopicPartition, Transaction

MARKERS_MAX: Final = 32
"""The markers of a transaction that its trace shows, with those that were sent again."""
NOTED_MAX: Final = 64
"""The ends that were asked for with a trace, and are not committed. Some never will be, since their shard has left."""


class MarkerTimes(NamedTuple):
    """One attempt to write a marker, in loop time."""

    partition: TopicPartition
    destination: str
    sent_at: float
    answered_at: float
    error: int
    span_id: int
    """0: none was sent."""


@dataclass(slots=True)
class EndingTrace:
    """The times of one second phase."""

    trace_id: int
    """0: nobody decided on a trace."""
    parent_id: int
    prepared_at: float
    written_at: float = 0.0
    complete_id: int = 0
    markers: list[MarkerTimes] = field(default_factory=list)


class EndingTraces:
    """The traces of one process's second phases. `now` is the loop's time."""

    def __init__(self, recorder: SpanRecorder, now: Callable[[], float]) -> None:
        self._recorder = recorder
        self._now = now
        self._asked: dict[str, SpanContext] = {}
        """The spans of EndTxn requests, by transactional id."""

    def asked(self, transactional_id: str, decided: SpanContext) -> None:
        """Notes a request to end a transaction whose trace somebody decided on."""
        if len(self._asked) >= NOTED_MAX:
            del self._asked[next(iter(self._asked))]
        self._asked[transactional_id] = decided

    def refused(self, transactional_id: str, decided: SpanContext) -> None:
        """Forgets a request that was refused. A later end of that transaction is not of its trace."""
        if self._asked.get(transactional_id) == decided:
            del self._asked[transactional_id]

    def begin(self, prepared: Transaction) -> EndingTrace:
        """The outcome is committed, and its markers are due."""
        context = self._asked.pop(prepared.transactional_id, None)
        return EndingTrace(context.trace_id if context else 0, context.span_id if context else 0, self._now())

    def of_marker(self, trace: EndingTrace) -> SpanContext | None:
        """The context for a request that writes a marker."""
        return SpanContext(trace.trace_id, random_span_id(self._recorder.random)) if trace.trace_id else None

    def of_completion(self, trace: EndingTrace) -> SpanContext | None:
        """The context for the append that completes it. All markers are written."""
        trace.written_at = self._now()
        trace.complete_id = random_span_id(self._recorder.random)
        return SpanContext(trace.trace_id, trace.complete_id) if trace.trace_id else None

    @GUARDED
    def completed(self, trace: EndingTrace, prepared: Transaction) -> None:
        """Makes the spans, if it has a trace."""
        now, recorder = self._now(), self._recorder
        slow = now - trace.prepared_at > recorder.rules.slow_s(ApiKey.END_TXN)
        if not (trace.trace_id or slow) or not recorder.admits(now, in_advance=not slow):
            return
        attributes: dict[str, AttributeValue] = {
            conventions.TRANSACTIONAL_ID: prepared.transactional_id[:ATTRIBUTE_CHARS_MAX],
            conventions.OUTCOME: prepared.state.value,
        }
        if trace.trace_id:
            context = SpanContext(trace.trace_id, random_span_id(recorder.random))
            tree = recorder.tree(context, trace.parent_id)
            tree.root("write markers", trace.prepared_at, trace.written_at, attributes, kind=SpanKind.INTERNAL)
            self._add_markers(tree, trace, context.span_id)
            completed_below = trace.parent_id
        else:
            context = random_context(recorder.random)
            tree = recorder.tree(context, None)
            attributes[conventions.REASON] = Reason.SLOW
            tree.root("second phase", trace.prepared_at, now, attributes, kind=SpanKind.INTERNAL)
            self._add_markers(tree, trace, tree.child("write markers", trace.prepared_at, trace.written_at))
            completed_below = context.span_id
        tree.child("complete", trace.written_at, now, span_id=trace.complete_id, parent_id=completed_below, kind=SpanKind.CLIENT)
        recorder.record(tree.spans)

    def _add_markers(self, tree: SpanTree, trace: EndingTrace, parent_id: int) -> None:
        for each in trace.markers:
            topic, partition = each.partition
            attributes: dict[str, AttributeValue] = {
                conventions.DESTINATION_NAME: topic,
                conventions.DESTINATION_PARTITION_ID: str(partition),
                conventions.SERVER_ID: each.destination,
            }
            tree.child(
                f"marker {topic}-{partition}",
                each.sent_at,
                each.answered_at,
                attributes,
                kind=SpanKind.CLIENT,
                span_id=each.span_id or None,
                parent_id=parent_id,
                error=error_name(each.error) if each.error else None,
            )
