"""Deviations of librdkafka from the protocol, which Kafka answers."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.metadata import read_request
from libs.wire.primitives import ProtocolError, Reader

# Recorded from librdkafka 2.16.0's list_topics() on all topics, version 13, after the header.
ALL_TOPICS = bytes.fromhex("00 00 00 00 01 00 00")


def test_the_zeros_with_which_librdkafka_asks_for_all_topics_are_accepted() -> None:
    reader = Reader(memoryview(ALL_TOPICS))
    assert read_request(reader, 13).topics is None
    reader.expect_end()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(ALL_TOPICS + b"\0", id="more than librdkafka adds"),
        pytest.param(bytes.fromhex("01 00 00 00 00 00 00"), id="no topics"),
    ],
)
def test_other_bytes_after_the_end_are_refused(body: bytes) -> None:
    reader = Reader(memoryview(body))
    read_request(reader, 13)
    with pytest.raises(ProtocolError, match="after the end"):
        reader.expect_end()


# Without a deletion or a change, and with its tagged fields twice, as librdkafka 2.16 writes them.
NO_CREDENTIALS = bytes.fromhex("01 01 00 00")


def test_the_tagged_fields_that_librdkafka_writes_twice_are_accepted() -> None:
    assert not APIS[ApiKey.ALTER_USER_SCRAM_CREDENTIALS].read(memoryview(NO_CREDENTIALS), 0).upsertions


@pytest.mark.parametrize("more", [pytest.param(b"\0\0", id="two bytes"), pytest.param(b"\1", id="another byte")])
def test_other_bytes_after_changed_credentials_are_refused(more: bytes) -> None:
    with pytest.raises(ProtocolError, match="after the end"):
        APIS[ApiKey.ALTER_USER_SCRAM_CREDENTIALS].read(memoryview(NO_CREDENTIALS[:-1] + more), 0)
