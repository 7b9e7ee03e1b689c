"""Trace contexts in produced batches: whatever a client sends is bounded and counted, and is never an error."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.clock import SystemClock
from libs.runtime.record_contexts import RecordContexts
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.recorder import SpanRecorder, default_tracing
from libs.telemetry.tracing.sampling import LOOKS_PER_SECOND
from libs.telemetry.tracing.span import SpanContext
from libs.wire.record_batches.batch_layout import HEADER_SIZE, Codec
from libs.wire.record_batches.records import Record, build_batch

TEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True)


def batch_of(*headers: tuple[str, bytes | None], codec: int = 0) -> bytearray:
    return build_batch([Record(b"k", b"v" * 1000, 1, headers)] * 3, codec=codec)


def new_recorder() -> SpanRecorder:
    return SpanRecorder(default_tracing(), "gateway-1-1", SystemClock(), lambda: 0.0)


def counts(recorder: SpanRecorder) -> tuple[int, int, int]:
    """Contexts that were read, malformed ones, and batches that were not looked at."""
    return recorder.contexts, recorder.malformed_contexts, recorder.looks.refused


@pytest.fixture
def recorder() -> SpanRecorder:
    return new_recorder()


@pytest.fixture
def contexts(recorder: SpanRecorder) -> RecordContexts:
    return RecordContexts(recorder)


def test_the_context_of_the_first_record_is_found(contexts: RecordContexts, recorder: SpanRecorder) -> None:
    assert contexts.of_batch(memoryview(batch_of(("traceparent", TEXT))), 0.0) == CONTEXT
    assert counts(recorder) == (1, 0, 0)


def test_a_batch_without_a_context_counts_as_nothing(contexts: RecordContexts, recorder: SpanRecorder) -> None:
    assert contexts.of_batch(memoryview(batch_of()), 0.0) is None
    assert contexts.of_batch(memoryview(batch_of(("traceparent", None))), 0.0) is None
    assert counts(recorder) == (0, 0, 0)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_batch_is_not_looked_at(contexts: RecordContexts, recorder: SpanRecorder, codec: Codec) -> None:
    assert contexts.of_batch(memoryview(batch_of(("traceparent", TEXT), codec=codec)), 0.0) is None
    assert counts(recorder) == (0, 0, 0)


@pytest.mark.parametrize(
    "text", [b"", b"x", TEXT.upper(), TEXT + b"-more", b"x" * 100_000, b"00-" + b"0" * 32 + TEXT[35:], b"\xff" * 55]
)
def test_a_malformed_context_is_counted_and_is_no_error(contexts: RecordContexts, recorder: SpanRecorder, text: bytes) -> None:
    assert contexts.of_batch(memoryview(batch_of(("traceparent", text))), 0.0) is None
    assert counts(recorder) == (0, 1, 0)


def test_a_tracestate_of_100_kb_is_stepped_over(contexts: RecordContexts) -> None:
    batch = batch_of(("tracestate", b"vendor=" + b"x" * 100_000), ("traceparent", TEXT))
    assert contexts.of_batch(memoryview(batch), 0.0) == CONTEXT


def test_looks_have_a_rate_and_those_beyond_it_are_counted(contexts: RecordContexts, recorder: SpanRecorder) -> None:
    batch = memoryview(batch_of(("traceparent", TEXT)))
    found = sum(contexts.of_batch(batch, 0.0) is not None for _ in range(LOOKS_PER_SECOND + 20))
    assert (found, recorder.looks.refused) == (LOOKS_PER_SECOND, 20)
    assert contexts.of_batch(batch, 1.0) == CONTEXT


@given(st.binary(max_size=200), st.randoms(use_true_random=False))
def test_any_bytes_are_no_error(data: bytes, random: Random) -> None:
    recorder = new_recorder()
    contexts = RecordContexts(recorder)
    contexts.of_batch(memoryview(data), 0.0)
    damaged = batch_of(("traceparent", TEXT))
    for _ in range(random.randrange(8)):
        damaged[random.randrange(HEADER_SIZE, len(damaged))] = random.randrange(256)
    contexts.of_batch(memoryview(damaged)[: random.randrange(len(damaged))], 0.0)
    assert recorder.contexts + recorder.malformed_contexts <= 2


def test_the_counts_are_metrics(contexts: RecordContexts, recorder: SpanRecorder) -> None:
    metrics = Metrics("gateway")
    metrics.watch_spans(recorder)
    contexts.of_batch(memoryview(batch_of(("traceparent", TEXT))), 0.0)
    contexts.of_batch(memoryview(batch_of(("traceparent", b"x"))), 0.0)
    assert metrics.registry.get_sample_value("penstock_trace_contexts_total") == 1
    assert metrics.registry.get_sample_value("penstock_trace_contexts_malformed_total") == 1
    assert metrics.registry.get_sample_value("penstock_trace_contexts_skipped_total") == 0
