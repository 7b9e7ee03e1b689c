"""Templates: a frame that matches means what the parser reads in it, and its answer is what the codec would write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.wire.headers import read_request_header, write_response_header
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, read_produce, write_produce_response
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.core.produce_template import ProduceTemplate, learn
from tests.gateway.damaged_frames import damaged_once
from tests.gateway.kafka_client import PRODUCE, frame, produce_body

VERSIONS = st.integers(3, 13)
RECORDS = st.binary(min_size=61, max_size=300).map(lambda raw: raw[:22] + b"\0" + raw[23:])


def request_frame(
    version: int, correlation_id: int, index: int, records: bytes, *, acks: int = -1, client: bytes = b"me"
) -> memoryview:
    topic: str | bytes = bytes(range(16)) if version >= 13 else "lines"
    body = produce_body(version, [(topic, [(index, records)])], acks=acks)
    return memoryview(frame(PRODUCE, version, correlation_id, body, client))[4:]


def learnt(view: memoryview) -> ProduceTemplate | None:
    reader = Reader(view)
    header = read_request_header(reader)
    return learn(view, header.api_version, header.client_id, read_produce(reader, header.api_version))


@given(VERSIONS, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), RECORDS, RECORDS)
def test_a_request_alike_is_read_as_the_parser_reads_it(
    version: int, correlation_id: int, index: int, a: bytes, b: bytes
) -> None:
    template = learnt(request_frame(version, 1, 0, a))
    assert template is not None
    matched = template.match(request_frame(version, correlation_id, index, b))
    assert matched is not None
    assert (matched.partition, bytes(matched.records)) == (index, b)
    assert (template.version, template.client_id, template.acks, template.timeout_ms) == (version, "me", -1, 5000)


@given(VERSIONS, st.integers(0, 2**31 - 1), st.integers(0, 1000), st.integers(0, 2**60), st.integers(-1, 2**40))
def test_the_answer_is_the_codecs(version: int, correlation_id: int, index: int, base_offset: int, append_time: int) -> None:
    template = learnt(request_frame(version, 1, 0, b"\0" * 61))
    assert template is not None
    writer = Writer()
    write_response_header(writer, 0, version, correlation_id)  # type: ignore[arg-type]
    produced = ProducedPartition(index, 0, base_offset, append_time, 5)
    write_produce_response(writer, version, [ProducedTopic(template.name, template.topic_id, [produced])])
    answer = template.answer(correlation_id, index, base_offset, append_time, 5)
    assert answer == len(writer.buffer).to_bytes(4, "big") + writer.buffer


@pytest.mark.parametrize("version", range(9, 14))
def test_tagged_fields_behind_the_records_do_not_match(version: int) -> None:
    original = request_frame(version, 1, 0, bytes(61))
    template = learnt(original)
    assert template is not None
    for at in (-3, -2, -1):
        tagged = bytearray(original)
        tagged[at] = 1
        assert template.match(memoryview(tagged)) is None


@given(VERSIONS, RECORDS, st.data())
def test_whatever_matches_parses_to_the_same(version: int, records: bytes, data: st.DataObject) -> None:
    """One byte is changed, or the frame is cut or grown. Either the template refuses it, or the parser reads the same."""
    original = request_frame(version, 1, 0, records)
    template = learnt(original)
    assert template is not None
    damaged = damaged_once(data, original)
    matched = template.match(memoryview(damaged))
    if matched is None:
        return
    reader = Reader(memoryview(damaged))
    try:
        header = read_request_header(reader)
        request = read_produce(reader, header.api_version)
        reader.expect_end()
    except ProtocolError as error:
        raise AssertionError("the parser refuses it") from error
    assert (header.api_version, header.client_id) == (template.version, template.client_id)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (template.acks, template.timeout_ms, None)
    ((index, parsed),) = request.topics[0].partitions
    assert parsed is not None
    assert (matched.partition, bytes(matched.records)) == (index, bytes(parsed))
    assert (request.topics[0].name, request.topics[0].topic_id) == (template.name, template.topic_id)


def test_other_acks_another_client_and_another_topic_are_other_templates() -> None:
    template = learnt(request_frame(9, 1, 0, b"\0" * 61))
    assert template is not None
    assert template.match(request_frame(9, 1, 0, b"\0" * 61, acks=1)) is None
    assert template.match(request_frame(9, 1, 0, b"\0" * 61, client=b"you")) is None
    assert template.match(request_frame(10, 1, 0, b"\0" * 61)) is None


def test_only_requests_of_one_batch_that_await_an_answer_have_a_template() -> None:
    assert learnt(request_frame(9, 1, 0, b"\0" * 61, acks=0)) is None
    assert learnt(request_frame(9, 1, 0, b"\0" * 60)) is None
    two = produce_body(9, [("lines", [(0, b"\0" * 61), (1, b"\0" * 61)])])
    assert learnt(memoryview(frame(PRODUCE, 9, 1, two))[4:]) is None
    transactional = produce_body(9, [("lines", [(0, b"\0" * 61)])], transactional_id="t")
    assert learnt(memoryview(frame(PRODUCE, 9, 1, transactional))[4:]) is None


def test_batches_that_the_gateway_refuses_do_not_match() -> None:
    template = learnt(request_frame(6, 1, 0, b"\0" * 61))
    assert template is not None
    assert template.match(request_frame(6, 1, 0, b"\0" * 22 + b"\x10" + b"\0" * 38)) is None, "transactional"
    assert template.match(request_frame(6, 1, 0, b"\0" * 22 + b"\x04" + b"\0" * 38)) is None, "zstd before version 7"
