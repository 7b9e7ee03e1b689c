"""Metadata by hand, against kio, in all versions."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
    read_request,
    write_response,
)
from libs.wire.primitives import NO_UUID, ProtocolError, Reader, Writer
from tests.wire.kio_messages import decode, encode, message_class, messages, plain

VERSIONS = range(14)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_request_is_read_as_kio_reads_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("metadata", "request", version)))
    reader = Reader(memoryview(encode(theirs)))
    ours = read_request(reader, version)
    reader.expect_end()
    expected = plain(theirs)
    topics = expected["topics"]
    if version == 0 and not topics:
        topics = None
    wanted = None if topics is None else [(t["name"], t.get("topic_id", NO_UUID)) for t in topics]
    assert (None if ours.topics is None else [tuple(t) for t in ours.topics]) == wanted
    for name in ("allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations"):
        assert getattr(ours, name) == expected.get(name, name.startswith("allow"))


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_response_has_the_bytes_that_kio_gives_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("metadata", "response", version)))
    writer = Writer()
    write_response(writer, _ours(plain(theirs)), version)
    assert bytes(writer.buffer) == encode(theirs)


def _ours(m: dict[str, Any]) -> MetadataResponse:
    response = MetadataResponse(
        [MetadataBroker(b["node_id"], b["host"], b["port"], b.get("rack")) for b in m["brokers"]],
        m.get("cluster_id"),
        m.get("controller_id", -1),
        [_topic(t) for t in m["topics"]],
        error_code=m.get("error_code", 0),
        throttle_ms=m.get("throttle_time_ms", 0),
    )
    if "cluster_authorized_operations" in m:
        response.cluster_authorized_operations = m["cluster_authorized_operations"]
    return response


def _topic(t: dict[str, Any]) -> MetadataTopic:
    topic = MetadataTopic(t["error_code"], t["name"], t.get("topic_id", NO_UUID), t.get("is_internal", False))
    topic.partitions = [
        MetadataPartition(
            p["error_code"],
            p["partition_index"],
            p["leader_id"],
            p.get("leader_epoch", -1),
            p["replica_nodes"],
            p["isr_nodes"],
            p.get("offline_replicas", ()),
        )
        for p in t["partitions"]
    ]
    if "topic_authorized_operations" in t:
        topic.authorized_operations = t["topic_authorized_operations"]
    return topic


@pytest.mark.parametrize("version", [7, 8, 9, 13])
def test_partitions_with_hundreds_of_replicas_are_written_too(version: int) -> None:
    many = tuple(range(300))
    topic = MetadataTopic(
        0, "t", partitions=[MetadataPartition(0, i, 1, 2, many[:size], many, ()) for i, size in enumerate((3, 126, 127, 300))]
    )
    writer = Writer()
    write_response(writer, MetadataResponse([], "c", 1, [topic]), version)
    theirs = decode(message_class("metadata", "response", version), bytes(writer.buffer))
    assert [p.replica_nodes for p in theirs.topics[0].partitions] == [many[:3], many[:126], many[:127], many]


@settings(max_examples=300)
@given(st.binary(max_size=120), st.sampled_from(VERSIONS))
def test_garbage_raises_nothing_but_protocol_errors(garbage: bytes, version: int) -> None:
    try:
        read_request(Reader(memoryview(garbage)), version)
    except ProtocolError:
        pass
