"""Templates: a frame that matches means what the parser reads in it, and its answer is what the codec would write."""

from hypothesis import given
from hypothesis import strategies as st

from libs.wire.headers import read_request_header
from libs.wire.messages.fetch import FetchedPartition, FetchRequest, FetchResponseWriter, read_fetch
from libs.wire.primitives import ProtocolError, Reader
from services.gateway.core.fetch_template import READ_COMMITTED, FetchTemplate, learn
from tests.gateway.damaged_frames import damaged_once
from tests.gateway.kafka_client import FETCH, fetch_body, frame

VERSIONS = st.integers(5, 18)
OFFSETS = st.integers(0, 2**62) | st.sampled_from((0, 1, 500, (1 << 30), -1))


def request_frame(
    version: int, correlation_id: int, offset: int, *, partitions: int = 1, client: bytes = b"me", isolation: int = 0
) -> memoryview:
    topic: str | bytes = bytes(range(16)) if version >= 13 else "lines"
    body = fetch_body(version, [(topic, [(index, offset) for index in range(partitions)])], isolation=isolation)
    return memoryview(frame(FETCH, version, correlation_id, body, client))[4:]


def parsed(view: memoryview) -> tuple[int, str, FetchRequest]:
    reader = Reader(view)
    header = read_request_header(reader)
    request = read_fetch(reader, header.api_version)
    reader.expect_end()
    return header.api_version, header.client_id, request


def learnt(view: memoryview) -> FetchTemplate | None:
    return learn(view, *parsed(view))


@given(VERSIONS, st.integers(0, 2**31 - 1), OFFSETS, OFFSETS)
def test_a_request_alike_is_read_as_the_parser_reads_it(version: int, correlation_id: int, first: int, then: int) -> None:
    template = learnt(request_frame(version, 1, first))
    assert template is not None
    again = request_frame(version, correlation_id, then)
    matched = template.match(again)
    assert matched == then
    assert (template.version, template.client_id, template.at(then)) == parsed(again)


@given(VERSIONS, OFFSETS, st.data())
def test_whatever_matches_parses_to_the_same(version: int, offset: int, data: st.DataObject) -> None:
    original = request_frame(version, 1, offset)
    template = learnt(original)
    assert template is not None
    damaged = damaged_once(data, original)
    matched = template.match(memoryview(damaged))
    if matched is None:
        return
    try:
        expected = parsed(memoryview(damaged))
    except ProtocolError as error:
        raise AssertionError("the parser refuses it") from error
    assert (template.version, template.client_id, template.at(matched)) == expected


ABORTED = st.none() | st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=130)
"""None: the reader wants all records."""


@given(VERSIONS, ABORTED, st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 300_000))
def test_the_answer_is_the_codecs(
    version: int, aborted: list[tuple[int, int]] | None, correlation_id: int, high_watermark: int, length: int
) -> None:
    template = learnt(request_frame(version, 1, 0, isolation=0 if aborted is None else READ_COMMITTED))
    assert template is not None
    records = memoryview(bytes(length))
    writer: FetchResponseWriter[memoryview] = FetchResponseWriter(version, correlation_id, 1)
    topic = template.request.topics[0]
    writer.begin_topic(topic.name, topic.topic_id, 1)
    partition = FetchedPartition(0, 0, high_watermark, high_watermark, 5, aborted)
    writer.partition(partition, [records] if length else [], length)
    writer.end_topic()
    before, after = template.answer(correlation_id, high_watermark, high_watermark, 5, length, aborted or ())
    assert before + records + after == b"".join(writer.finish().pieces)


def test_reads_of_several_partitions_and_of_unknown_isolation_have_no_template() -> None:
    assert learnt(request_frame(12, 1, 0, partitions=2)) is None
    assert learnt(request_frame(12, 1, 0, isolation=2)) is None


def test_a_client_id_that_looks_like_the_offset_makes_no_template_of_its_own() -> None:
    offset = int.from_bytes(b"aaaaaaaa", "big")
    template = learnt(request_frame(12, 1, offset, client=b"aaaaaaaa"))
    assert template is not None
    assert template.match(request_frame(12, 1, offset, client=b"aaaaaaab")) is None
    assert template.match(request_frame(12, 1, 7, client=b"aaaaaaaa")) == 7
