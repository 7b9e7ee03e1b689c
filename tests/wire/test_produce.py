"""Produce by hand, against kio."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.messages.endpoints import NodeEndpoint
from libs.wire.messages.produce import ProducedPartition, ProducedTopic, read_produce, write_produce_response
from libs.wire.primitives import NO_UUID, ProtocolError, Reader, Writer
from tests.wire.kio_messages import encode, message_class, messages, plain

VERSIONS = range(3, 14)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_request_is_read_as_kio_reads_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("produce", "request", version)))
    reader = Reader(memoryview(encode(theirs)))
    ours = read_produce(reader, version)
    reader.expect_end()
    expected = plain(theirs)
    assert (ours.transactional_id, ours.acks, ours.timeout_ms) == (
        expected["transactional_id"],
        expected["acks"],
        expected["timeout_ms"],
    )
    assert [
        (t.name, t.topic_id, [(index, None if r is None else bytes(r)) for index, r in t.partitions]) for t in ours.topics
    ] == [
        (t.get("name"), t.get("topic_id"), [(p["index"], p["records"]) for p in t["partition_data"]])
        for t in expected["topic_data"]
    ]


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_response_has_the_bytes_that_kio_gives_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("produce", "response", version)).filter(_leader_is_told_or_not))
    expected = plain(theirs)
    writer = Writer()
    write_produce_response(
        writer,
        version,
        [_topic(topic) for topic in expected["responses"]],
        expected["throttle_time_ms"],
        [NodeEndpoint(**endpoint) for endpoint in expected.get("node_endpoints", [])],
    )
    assert bytes(writer.buffer) == encode(theirs)


def _leader_is_told_or_not(response: Any) -> bool:
    """Whether a leader hint is complete or absent. kio can generate half a hint, which we never send."""
    leaders = [
        getattr(partition, "current_leader", None) for topic in response.responses for partition in topic.partition_responses
    ]
    return all(leader is None or leader.leader_id >= 0 or leader == type(leader)() for leader in leaders)


def _topic(topic: dict[str, Any]) -> ProducedTopic:
    return ProducedTopic(topic.get("name"), topic.get("topic_id"), [_partition(p) for p in topic["partition_responses"]])


def _partition(p: dict[str, Any]) -> ProducedPartition:
    leader = p.get("current_leader", {"leader_id": -1, "leader_epoch": -1})
    return ProducedPartition(
        p["index"],
        p["error_code"],
        p["base_offset"],
        p["log_append_time_ms"],
        p.get("log_start_offset", -1),
        [(e["batch_index"], e["batch_index_error_message"]) for e in p.get("record_errors", [])],
        p.get("error_message"),
        leader["leader_id"],
        leader["leader_epoch"],
    )


def test_records_are_writable_views_of_the_frame() -> None:
    writer = Writer()
    writer.nullable_string(None, False)
    writer.int16(1)
    writer.int32(1000)
    writer.array_length(1, False)
    writer.string("t", False)
    writer.array_length(1, False)
    writer.int32(0)
    writer.data(b"batch", False)
    frame = writer.buffer
    ((_, records),) = read_produce(Reader(memoryview(frame)), 7).topics[0].partitions
    assert records is not None
    records[0:5] = b"BATCH"
    assert frame.endswith(b"BATCH")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_of_a_request_is_refused(version: int) -> None:
    flexible = version >= 9
    writer = Writer()
    writer.nullable_string("id", flexible)
    writer.int16(1)
    writer.int32(1000)
    writer.array_length(1, flexible)
    if version >= 13:
        writer.uuid(NO_UUID)
    else:
        writer.string("topic", flexible)
    writer.array_length(1, flexible)
    writer.int32(0)
    writer.data(b"records", flexible)
    if flexible:
        writer.buffer += b"\0\0\0"
    whole = Reader(memoryview(writer.buffer))
    read_produce(whole, version)
    whole.expect_end()
    for length in range(len(writer.buffer)):
        with pytest.raises(ProtocolError):
            read_produce(Reader(memoryview(writer.buffer)[:length]), version)


@settings(max_examples=300)
@given(st.binary(max_size=120), st.sampled_from(VERSIONS))
def test_garbage_raises_nothing_but_protocol_errors(garbage: bytes, version: int) -> None:
    try:
        read_produce(Reader(memoryview(garbage)), version)
    except ProtocolError:
        pass
