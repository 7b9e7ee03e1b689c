"""The spans of a client's request, from its stage times."""

from libs.telemetry.tracing.conventions import (
    CLIENT_ID,
    DESTINATION_NAME,
    DESTINATION_PARTITION_ID,
    DISK_WAIT_S,
    OPERATION_NAME,
    OPERATION_TYPE,
    SERVER_ID,
)
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Span, SpanContext
from libs.telemetry.tracing.span_tree import SpanTree
from libs.wire.api_keys import ApiKey
from services.gateway.core.request_spans import AnsweredRequest, AskedProcess, add_spans, partition_subject

ROOT = SpanContext(1, 9)


def asked(sent_at: float, answered_at: float, *, trace_id: int = 1, span_id: int = 7) -> AskedProcess:
    return AskedProcess(SpanContext(trace_id, span_id), "storage.append", "storage-1-1", sent_at, answered_at)


def spans_of(
    *calls: AskedProcess,
    key: ApiKey = ApiKey.PRODUCE,
    began_at: float = 1.0,
    parked_at: float = 0.0,
    throttled: bool = False,
    client_id: str = "a",
    disk_wait_s: float = 0.0,
) -> list[Span]:
    """Received at 1.0, answered at 2.0. The client has the answer at 2.2."""
    subject = partition_subject("orders", 3) if calls else None
    request = AnsweredRequest(
        *(key, 9, client_id, "10.0.0.1:5", Reason.SLOW, 1.0, began_at, parked_at or (calls[0].sent_at if calls else 0.0), 2.0),
        *(throttled, calls, subject, None),
    )
    ids = iter(range(10, 99))
    tree = SpanTree(ROOT, None, 0, lambda: next(ids))
    add_spans(request, 2.2, tree, ROOT.trace_id, disk_wait_s)
    return tree.spans


def story(spans: list[Span]) -> list[str]:
    return [f"{span.name} {round(span.start_ns / 1e8)}-{round(span.end_ns / 1e8)}" for span in spans]


def test_a_request_is_parsed_sent_and_answered() -> None:
    spans = spans_of(asked(1.1, 1.9))
    assert story(spans) == ["Produce orders 10-22", "parse 10-11", "storage.append 11-19", "answer 19-20", "send 20-22"]
    root, _, call, _, _ = spans
    assert (call.context.span_id, call.parent_id) == (7, root.context.span_id)
    assert call.attributes[SERVER_ID] == "storage-1-1"
    expected = {
        OPERATION_NAME: "send",
        OPERATION_TYPE: "send",
        DESTINATION_NAME: "orders",
        DESTINATION_PARTITION_ID: "3",
        CLIENT_ID: "a",
    }
    assert expected.items() <= root.attributes.items()


def test_a_request_that_waited_for_others_of_its_connection_says_so() -> None:
    assert story(spans_of(asked(1.6, 1.9), began_at=1.5))[1:3] == ["queued 10-15", "parse 15-16"]


def test_a_request_that_waited_for_its_quota_says_so() -> None:
    assert story(spans_of(asked(1.6, 1.9), began_at=1.5, throttled=True))[1] == "throttled 10-15"


def test_a_request_that_was_sent_again_shows_both_and_the_wait_between() -> None:
    spans = spans_of(asked(1.1, 1.3), asked(1.7, 1.9, span_id=8))
    assert story(spans)[2:5] == ["storage.append 11-13", "wait for a leader 13-17", "storage.append 17-19"]


def test_a_request_that_waited_for_a_leader_says_so() -> None:
    assert story(spans_of(asked(1.6, 1.9), parked_at=1.1))[1:3] == ["parse 10-11", "wait for a leader 11-16"]


def test_two_processes_that_are_asked_at_once_are_no_wait() -> None:
    spans = spans_of(asked(1.1, 1.9), asked(1.1, 1.8, span_id=8))
    assert story(spans)[2:] == ["storage.append 11-19", "storage.append 11-18", "answer 19-20", "send 20-22"]


def test_a_process_that_never_answered_was_waited_for_to_the_end() -> None:
    assert story(spans_of(asked(1.1, 0.0)))[2] == "storage.append 11-20"


def test_another_process_of_a_slow_request_has_a_trace_of_its_own_and_is_linked() -> None:
    spans = spans_of(asked(1.1, 1.9), asked(1.1, 1.8, trace_id=2, span_id=8))
    assert [link.context.trace_id for link in spans[0].links] == [2]
    assert {span.context.trace_id for span in spans} == {1}


def test_a_request_that_asks_nobody_is_answered_and_sent() -> None:
    assert story(spans_of(key=ApiKey.API_VERSIONS)) == ["ApiVersions 10-22", "send 20-22"]


def test_a_send_that_waited_for_a_disk_says_for_how_long() -> None:
    assert spans_of(key=ApiKey.FETCH, disk_wait_s=0.15)[-1].attributes == {DISK_WAIT_S: 0.15}
    assert spans_of(key=ApiKey.FETCH)[-1].attributes == {}


def test_a_text_of_a_client_has_a_bound() -> None:
    root, _ = spans_of(key=ApiKey.METADATA, client_id="x" * 10_000)
    assert len(str(root.attributes[CLIENT_ID])) == 256
