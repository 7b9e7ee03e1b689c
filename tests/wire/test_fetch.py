"""Fetch by hand, against kio: requests, and responses whose records are somewhere else."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey, response_header_version
from libs.wire.messages.endpoints import NodeEndpoint
from libs.wire.messages.fetch import FetchedPartition, FetchResponse, FetchResponseWriter, read_fetch
from libs.wire.primitives import ProtocolError, Reader
from tests.wire.kio_messages import decode, encode, message_class, messages, plain

VERSIONS = range(4, 19)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_request_is_read_as_kio_reads_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("fetch", "request", version)))
    encoded = encode(theirs)
    reader = Reader(memoryview(encoded))
    ours = read_fetch(reader, version)
    reader.expect_end()
    expected = plain(theirs)
    replica = expected.get("replica_state", {"replica_id": expected.get("replica_id", -1), "replica_epoch": -1})
    assert (ours.replica_id, ours.replica_epoch) == (replica["replica_id"], replica["replica_epoch"])
    for name in (
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "rack_id",
        "cluster_id",
    ):
        if name in expected:
            assert getattr(ours, name) == expected[name]
    assert [(t.name, t.topic_id) for t in ours.topics] == [(t.get("topic"), t.get("topic_id")) for t in expected["topics"]]
    for topic, wanted in zip(ours.topics, expected["topics"], strict=True):
        assert [tuple(p) for p in topic.partitions] == [
            (
                p["partition"],
                p["fetch_offset"],
                p["partition_max_bytes"],
                p.get("current_leader_epoch", -1),
                p.get("last_fetched_epoch", -1),
                p.get("log_start_offset", -1),
            )
            for p in wanted["partitions"]
        ]
    forgotten = [(f.get("topic"), f.get("topic_id"), f["partitions"]) for f in expected.get("forgotten_topics_data", [])]
    assert ours.forgotten == forgotten


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_response_has_the_bytes_that_kio_gives_it(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class("fetch", "response", version)).map(_only_what_we_send))
    expected = plain(theirs)
    response = _write(version, expected)
    frame = b"".join(bytes(piece) for piece in response.pieces)
    assert len(frame) == response.length
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == 77
    body = frame[9:] if response_header_version(ApiKey.FETCH, version) else frame[8:]
    assert body == encode(theirs)


def _write(version: int, expected: dict[str, Any]) -> FetchResponse[bytes]:
    writer: FetchResponseWriter[bytes] = FetchResponseWriter(
        version,
        77,
        len(expected["responses"]),
        throttle_ms=expected["throttle_time_ms"],
        error_code=expected.get("error_code", 0),
        session_id=expected.get("session_id", 0),
    )
    for topic in expected["responses"]:
        writer.begin_topic(topic.get("topic"), topic.get("topic_id"), len(topic["partitions"]))
        for p in topic["partitions"]:
            # As callers pass them: in several pieces, none of them ours.
            records = [p["records"][:3], p["records"][3:]] if p["records"] else []
            writer.partition(_state(p), records, len(p["records"]))
        writer.end_topic()
    return writer.finish([NodeEndpoint(**endpoint) for endpoint in expected.get("node_endpoints", [])])


def _state(p: dict[str, Any]) -> FetchedPartition:
    diverging = p.get("diverging_epoch", {"epoch": -1, "end_offset": -1})
    leader = p.get("current_leader", {"leader_id": -1, "leader_epoch": -1})
    aborted = p["aborted_transactions"]
    return FetchedPartition(
        p["partition_index"],
        p["error_code"],
        p["high_watermark"],
        p["last_stable_offset"],
        p.get("log_start_offset", -1),
        None if aborted is None else [(a["producer_id"], a["first_offset"]) for a in aborted],
        p.get("preferred_read_replica", -1),
        diverging["epoch"],
        diverging["end_offset"],
        leader["leader_id"],
        leader["leader_epoch"],
    )


def _only_what_we_send(response: Any) -> Any:
    """The response with only those fields that we send: no snapshot ids (KRaft's), no null records, no half hints."""
    topics = []
    for topic in response.responses:
        partitions = []
        for p in topic.partitions:
            changes: dict[str, Any] = {"records": p.records or b""}
            if hasattr(p, "snapshot_id"):
                changes["snapshot_id"] = type(p.snapshot_id)()
                if p.diverging_epoch.epoch < 0:
                    changes["diverging_epoch"] = type(p.diverging_epoch)()
                if p.current_leader.leader_id < 0:
                    changes["current_leader"] = type(p.current_leader)()
            partitions.append(dataclasses.replace(p, **changes))
        topics.append(dataclasses.replace(topic, partitions=tuple(partitions)))
    return dataclasses.replace(response, responses=tuple(topics))


def test_records_stand_between_our_own_bytes_in_order() -> None:
    first, second = object(), object()
    writer: FetchResponseWriter[object] = FetchResponseWriter(12, 1, 1)
    writer.begin_topic("t", None, 2)
    writer.partition(FetchedPartition(0), [first, second], 100)
    writer.partition(FetchedPartition(1))
    writer.end_topic()
    response = writer.finish()
    own = [piece for piece in response.pieces if isinstance(piece, bytearray)]
    assert response.pieces == [own[0], first, second, own[1]]
    assert response.length == len(own[0]) + len(own[1]) + 100
    assert int.from_bytes(own[0][:4], "big") == response.length - 4


def test_a_response_without_records_is_one_piece() -> None:
    writer: FetchResponseWriter[bytes] = FetchResponseWriter(4, 1, 0)
    response = writer.finish()
    assert [len(piece) for piece in response.pieces] == [response.length]


def test_no_records_are_written_as_empty_and_not_as_null() -> None:
    writer: FetchResponseWriter[bytes] = FetchResponseWriter(13, 1, 1)
    writer.begin_topic(None, b"\7" * 16, 1)
    writer.partition(FetchedPartition(0))
    writer.end_topic()
    frame = b"".join(bytes(piece) for piece in writer.finish().pieces)
    theirs = decode(message_class("fetch", "response", 13), frame[9:])
    assert theirs.responses[0].partitions[0].records == b""


def test_hints_of_the_leader_and_diverging_epochs_are_tagged() -> None:
    writer: FetchResponseWriter[bytes] = FetchResponseWriter(16, 1, 1)
    writer.begin_topic(None, b"\7" * 16, 1)
    state = FetchedPartition(0, 6, leader_id=2, leader_epoch=5, diverging_epoch=4, diverging_end_offset=10)
    writer.partition(state, [b"xyz"], 3)
    writer.end_topic()
    frame = b"".join(bytes(piece) for piece in writer.finish([NodeEndpoint(2, "host", 9094, "rack")]).pieces)
    theirs = decode(message_class("fetch", "response", 16), frame[9:])
    partition = theirs.responses[0].partitions[0]
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 5)
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (4, 10)
    assert [(e.node_id, e.host, e.port, e.rack) for e in theirs.node_endpoints] == [(2, "host", 9094, "rack")]


@settings(max_examples=300)
@given(st.binary(max_size=120), st.sampled_from(VERSIONS))
def test_garbage_raises_nothing_but_protocol_errors(garbage: bytes, version: int) -> None:
    try:
        read_fetch(Reader(memoryview(garbage)), version)
    except ProtocolError:
        pass


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_of_a_request_is_refused(version: int) -> None:
    encoded = _sample(version)
    for length in range(len(encoded)):
        with pytest.raises(ProtocolError):
            read_fetch(Reader(memoryview(encoded)[:length]), version)


def _sample(version: int) -> bytes:
    flexible = version >= 12
    count = b"\2" if flexible else b"\0\0\0\1"
    name = b"\7" * 16 if version >= 13 else (b"\2t" if flexible else b"\0\1t")
    partition = {True: 4 + 4 + 8 + 4 + 8 + 4, False: 16 + (8 if version >= 5 else 0) + (4 if version >= 9 else 0)}[flexible]
    tags = b"\0" if flexible else b""
    parts = [
        b"\xff\xff\xff\xff" if version <= 14 else b"",
        b"\0" * 13,
        b"\0" * 8 if version >= 7 else b"",
        count + name + count + b"\0" * partition + tags + tags,
        (count + name + count + b"\0\0\0\5" + tags) if version >= 7 else b"",
        (b"\5" if flexible else b"\0\4") + b"rack" if version >= 11 else b"",
        tags,
    ]
    encoded = b"".join(parts)
    reader = Reader(memoryview(encoded))
    read_fetch(reader, version)
    reader.expect_end()
    return encoded
