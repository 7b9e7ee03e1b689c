"""The trace contexts in RPC headers: what one process packs another one reads, and nothing else is an error."""

from hypothesis import given
from hypothesis import strategies as st

from libs.rpc.messages.envelope import MAX_HEADER
from libs.telemetry.tracing.rpc_context import CONTEXTS_MAX, Indexed, pack_context, pack_contexts, unpack_context, unpack_contexts
from libs.telemetry.tracing.span import SpanContext

contexts = st.builds(SpanContext, st.integers(1, (1 << 128) - 1), st.integers(1, (1 << 64) - 1), st.just(True))
indexed = st.lists(st.tuples(st.integers(0, 0xFFFF), contexts), max_size=CONTEXTS_MAX + 2)
CONTEXT = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@given(indexed)
def test_the_first_eight_contexts_arrive_as_they_were_sent(sent: list[Indexed]) -> None:
    packed = pack_contexts(sent)
    assert unpack_contexts(packed) == sent[:CONTEXTS_MAX]
    assert packed is None or len(packed) < MAX_HEADER // 8


@given(st.binary(max_size=300))
def test_any_bytes_give_at_most_eight_contexts_without_an_id_of_zeros(packed: bytes) -> None:
    found = unpack_contexts(packed)
    assert len(found) <= CONTEXTS_MAX
    assert all(context.trace_id and context.span_id for _, context in found)


def test_a_batch_beyond_the_largest_index_travels_without_a_context() -> None:
    assert unpack_contexts(pack_contexts([(0x1_0000, CONTEXT), (1, CONTEXT)])) == [(1, CONTEXT)]


def test_a_request_about_one_thing_has_one_context_or_none() -> None:
    assert unpack_context(pack_context(CONTEXT)) == CONTEXT
    assert unpack_context(None) is None
    assert unpack_context(pack_contexts([])) is None
    assert unpack_context(bytes(26)) is None
