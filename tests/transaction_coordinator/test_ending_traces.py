"""Traces of the second phase of a transaction: below its EndTxn if that was sampled, by itself if it is slow, and bounded."""

from libs.clock import SystemClock
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span, SpanContext
from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer, Transaction
from services.transaction_coordinator.markers.ending_traces import NOTED_MAX, EndingTraces, MarkerTimes
from tests.support.failing_spans import FailingSpans
from tests.support.span_ring import SpanRing
from tests.tracing.trees import named, seconds, tree

PREPARED = Transaction("t", Producer(1000, 0), state=State.PREPARE_COMMIT, partitions=frozenset({("orders", 0)}))
DECIDED = SpanContext(11, 12)


class Endings:
    def __init__(self, ring: SpanRing | None = None) -> None:
        self.now, self.ring = 100.0, ring if ring is not None else SpanRing()
        recorder = SpanRecorder(Tracing(TraceRules(sample_ratio=0.0), self.ring), "coordinator", SystemClock(), lambda: self.now)
        self.traces = EndingTraces(recorder, lambda: self.now)

    @property
    def spans(self) -> list[Span]:
        return list(self.ring)

    def ends(self, marker_s: float, errors: tuple[int, ...] = (0,)) -> None:
        """From the committed outcome to the committed completion, with one attempt for each of the errors."""
        trace = self.traces.begin(PREPARED)
        for error in errors:
            context, sent_at = self.traces.of_marker(trace), self.now
            self.now += marker_s
            span_id = context.span_id if context is not None else 0
            trace.markers.append(MarkerTimes(("orders", 0), "storage 1", sent_at, self.now, error, span_id))
        self.traces.of_completion(trace)
        self.now += 0.001
        self.traces.completed(trace, PREPARED)


def test_a_sampled_end_has_markers_and_completion_below_its_decision() -> None:
    endings = Endings()
    endings.traces.asked("t", DECIDED)
    endings.ends(0.002)
    assert {span.context.trace_id for span in endings.spans} == {DECIDED.trace_id}
    assert tree(endings.spans) == ["write markers", "  marker orders-0", "complete"]
    assert named(endings.spans, "write markers").parent_id == named(endings.spans, "complete").parent_id == DECIDED.span_id


def test_a_quick_end_that_nobody_asked_a_trace_of_has_none() -> None:
    endings = Endings()
    endings.ends(0.002)
    assert not endings.spans


def test_a_slow_end_is_a_trace_of_its_own_and_names_the_marker_that_was_refused() -> None:
    endings = Endings()
    endings.ends(0.2, (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0))
    assert tree(endings.spans) == [
        "second phase",
        "  write markers",
        "    marker orders-0",
        "    marker orders-0",
        "  complete",
    ]
    first, second = [span for span in endings.spans if span.name == "marker orders-0"]
    assert (first.error, second.error) == ("NOT_LEADER_OR_FOLLOWER", None)
    assert round(seconds(named(endings.spans, "write markers")), 2) == 0.4


def test_the_end_of_one_transaction_takes_no_context_of_another_and_of_its_next_one() -> None:
    endings = Endings()
    endings.traces.asked("other", DECIDED)
    endings.ends(0.002)
    endings.traces.asked("t", DECIDED)
    endings.ends(0.002)
    endings.ends(0.002)
    assert len(endings.spans) == 3


def test_ends_that_are_never_answered_leave_a_bounded_number_of_notes() -> None:
    endings = Endings()
    endings.traces.asked("t", DECIDED)
    for number in range(NOTED_MAX):
        endings.traces.asked(f"refused-{number}", DECIDED)
    endings.ends(0.002)
    assert not endings.spans, "the oldest gave way"


def test_a_failure_costs_the_trace_and_not_the_end() -> None:
    endings = Endings(spans := FailingSpans())
    endings.traces.asked("t", DECIDED)
    endings.ends(0.002)
    assert spans.failed == 1


def test_an_end_that_was_refused_gives_its_context_to_no_later_end() -> None:
    endings = Endings()
    endings.traces.asked("t", DECIDED)
    endings.traces.refused("t", DECIDED)
    endings.ends(0.002)
    assert not endings.spans


def test_a_refused_request_forgets_no_other_one_for_the_same_transaction() -> None:
    endings = Endings()
    endings.traces.asked("t", DECIDED)
    endings.traces.refused("t", SpanContext(13, 14))
    endings.ends(0.002)
    assert {span.context.trace_id for span in endings.spans} == {DECIDED.trace_id}
