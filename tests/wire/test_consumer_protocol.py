"""Subscriptions and assignments as consumers write them: kio's bytes for every version, and Kafka's patience with what is odd."""

import importlib
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
    write_subscription,
)
from libs.wire.primitives import ProtocolError
from tests.wire.kio_messages import encode, messages

VERSIONS = range(4)


def kio_class(name: str, version: int) -> Any:
    module = importlib.import_module(f"kio.schema.consumer_protocol_{name.lower()}.v{version}.data")
    return getattr(module, f"ConsumerProtocol{name}")


def partitions(theirs: Any) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(entry.topic, entry.partitions) for entry in theirs)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_subscriptions_are_those_of_kio(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(kio_class("Subscription", version)))
    encoded = struct.pack(">h", version) + encode(theirs)
    ours = ConsumerProtocolSubscription(
        theirs.topics,
        theirs.user_data,
        partitions(theirs.owned_partitions) if version >= 1 else (),
        theirs.generation_id if version >= 2 else -1,
        theirs.rack_id if version >= 3 else None,
    )
    assert read_subscription(encoded) == ours
    assert version_of(encoded) == version
    assert write_subscription(ours, version) == encoded


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_assignments_are_those_of_kio(version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(kio_class("Assignment", version)))
    encoded = struct.pack(">h", version) + encode(theirs)
    ours = ConsumerProtocolAssignment(partitions(theirs.assigned_partitions), theirs.user_data)
    assert read_assignment(encoded) == ours
    assert version_of(encoded) == version
    assert write_assignment(ours, version) == encoded


SUBSCRIPTION = ConsumerProtocolSubscription(("t",), b"u", (TopicPartition("t", (0, 1)),), 5, "rack")
ASSIGNMENT = ConsumerProtocolAssignment((TopicPartition("t", (0, 1)),), b"u")


def test_a_later_version_is_read_as_the_last_known() -> None:
    later = b"\0\x07" + write_subscription(SUBSCRIPTION)[2:] + b"what version 7 added"
    assert version_of(later) == 7
    assert read_subscription(later) == SUBSCRIPTION
    assert read_assignment(b"\0\x07" + write_assignment(ASSIGNMENT)[2:] + b"more") == ASSIGNMENT


def test_a_later_version_is_answered_in_the_last_known() -> None:
    assert write_subscription(SUBSCRIPTION, 7) == write_subscription(SUBSCRIPTION, 3)
    assert write_assignment(ASSIGNMENT, 7) == write_assignment(ASSIGNMENT, 3)


def test_topics_are_read_of_a_subscription_that_lacks_what_its_version_has() -> None:
    data = b"\0\1" + write_subscription(SUBSCRIPTION, 0)[2:]
    with pytest.raises(ProtocolError):
        read_subscription(data)
    assert read_subscription(data, up_to=0) == ConsumerProtocolSubscription(("t",), b"u")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + write_subscription(SUBSCRIPTION)[2:]])
def test_no_version_or_a_negative_one_is_refused(data: bytes) -> None:
    for read in (version_of, read_subscription, read_assignment):
        with pytest.raises(ProtocolError):
            read(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_refused(version: int) -> None:
    for read, data in (
        (read_subscription, write_subscription(SUBSCRIPTION, version)),
        (read_assignment, write_assignment(ASSIGNMENT, version)),
    ):
        for length in range(len(data)):
            with pytest.raises(ProtocolError):
                read(data[:length])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_whatever_bytes_a_client_sends_only_protocol_errors_come_out(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except ProtocolError:
            pass
