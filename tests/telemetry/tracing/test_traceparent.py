"""W3C Trace Context: what is valid and what is not, by the specification's own examples and against a dumb model."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.traceparent import TRACEPARENT_BYTES_MAX, format_traceparent, parse_traceparent

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE_ID}-{SPAN_ID}-01"
CONTEXT = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True)

contexts = st.builds(SpanContext, st.integers(1, (1 << 128) - 1), st.integers(1, (1 << 64) - 1), st.booleans())
texts = st.text("0123456789abcdefABF-", max_size=70) | st.tuples(
    st.sampled_from(["00", "01", "cc", "ff", "0", "0g", "AA"]),
    st.sampled_from([TRACE_ID, TRACE_ID.upper(), "0" * 32, TRACE_ID[1:], TRACE_ID + "0"]),
    st.sampled_from([SPAN_ID, SPAN_ID.upper(), "0" * 16, SPAN_ID[1:], SPAN_ID + "0"]),
    st.sampled_from(["00", "01", "03", "fe", "1", "001", "0x", "01-", "01-more", "01.more", "01\n"]),
).map("-".join)


def by_the_specification(text: str) -> SpanContext | None:
    """The dumb model: the fields one by one, as https://www.w3.org/TR/trace-context/#traceparent-header lists them."""

    def is_hex(field: str, size: int) -> bool:
        return len(field) == size and all(each in string.hexdigits.lower() and not each.isupper() for each in field)

    fields = text.split("-")
    if len(fields) < 4 or not all(map(is_hex, fields[:4], (2, 32, 16, 2))):
        return None
    version, trace_id, span_id, flags = fields[:4]
    if version == "ff" or (version == "00" and len(fields) > 4):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return SpanContext(int(trace_id, 16), int(span_id, 16), int(flags, 16) % 2 == 1)


@given(texts)
def test_texts_are_read_as_the_specification_says(text: str) -> None:
    expected = by_the_specification(text)
    if expected is None:
        with pytest.raises(ValueError, match="traceparent"):
            parse_traceparent(text.encode())
    else:
        assert parse_traceparent(text.encode()) == expected


@given(st.binary(max_size=80))
def test_any_bytes_give_a_context_or_a_value_error(text: bytes) -> None:
    try:
        parse_traceparent(text)
    except ValueError:
        pass


@given(contexts)
def test_a_context_survives_as_text(context: SpanContext) -> None:
    assert parse_traceparent(format_traceparent(context).encode()) == context


def test_the_specifications_example_is_read_and_written() -> None:
    assert parse_traceparent(VALID.encode()) == CONTEXT
    assert format_traceparent(CONTEXT) == VALID
    assert not parse_traceparent(VALID.replace("-01", "-00").encode()).sampled


def test_a_later_version_is_read_as_far_as_it_is_known_and_has_a_bound() -> None:
    assert parse_traceparent(f"cc-{TRACE_ID}-{SPAN_ID}-01-what-the-future-will-be-like".encode()) == CONTEXT
    with pytest.raises(ValueError, match="no traceparent"):
        parse_traceparent(f"cc-{TRACE_ID}-{SPAN_ID}-01-{'x' * TRACEPARENT_BYTES_MAX}".encode())
