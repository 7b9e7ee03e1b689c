"""Ids of traces that nobody decided on in advance."""

from hypothesis import given
from hypothesis import strategies as st

from libs.telemetry.tracing.ids import RpcRequest, derived_context, process_name

REQUEST = RpcRequest(process_name("gateway", 1, 1_700_000_000_000), process_name("storage", 3, 8), request_id=77)


def test_both_ends_derive_the_same_ids() -> None:
    there = RpcRequest("gateway-1-1700000000000", "storage-3-8", 77)
    assert derived_context(REQUEST) == derived_context(there)


def test_each_part_of_a_request_s_identity_makes_another_trace() -> None:
    requests = [
        REQUEST,
        REQUEST._replace(client=process_name("gateway", 2, 1_700_000_000_000)),
        REQUEST._replace(client=process_name("gateway", 1, 1_700_000_000_001)),
        REQUEST._replace(server=process_name("storage", 4, 8)),
        REQUEST._replace(server=process_name("group_coordinator", 3, 8)),
        REQUEST._replace(request_id=78),
        REQUEST._replace(part=1),
    ]
    contexts = [derived_context(request) for request in requests]
    assert len({context.trace_id for context in contexts}) == len({context.span_id for context in contexts}) == len(requests)


@given(st.integers(-1, (1 << 63) - 1), st.integers(0, (1 << 31) - 1))
def test_ids_are_what_the_specification_allows(request_id: int, part: int) -> None:
    context = derived_context(REQUEST._replace(request_id=request_id, part=part))
    assert 0 < context.trace_id < 1 << 128
    assert 0 < context.span_id < 1 << 64
    assert not context.sampled
