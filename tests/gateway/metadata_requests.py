"""Metadata requests: for the brokers alone, or for one topic."""

from typing import NamedTuple

from libs.wire.primitives import Reader, Writer
from tests.gateway.kafka_client import METADATA, RawClient

VERSION = 7
"""The first version with leader epochs."""

NO_TOPICS = bytes(4)


async def brokers(client: RawClient) -> dict[int, int]:
    """The port of each broker, as the gateway names it."""
    client.ask(METADATA, 1, NO_TOPICS)
    _, reader = await client.answer(METADATA, 1)
    ports = {}
    for _ in range(reader.int32()):
        node_id, _, port, _ = reader.int32(), reader.string(False), reader.int32(), reader.nullable_string(False)
        ports[node_id] = port
    return ports


class Leader(NamedTuple):
    error: int
    leader: int
    leader_epoch: int


async def topic_metadata(client: RawClient, topic: str) -> tuple[list[int], list[Leader]]:
    """The broker ids, and the leader of each partition."""
    writer = Writer()
    writer.int32(1)
    writer.string(topic, False)
    writer.boolean(False)
    client.ask(METADATA, VERSION, bytes(writer.buffer))
    _, reader = await client.answer(METADATA, VERSION)
    reader.int32()
    brokers = []
    for _ in range(reader.int32()):
        brokers.append(reader.int32())
        _ = reader.string(False), reader.int32(), reader.nullable_string(False)
    _ = reader.nullable_string(False), reader.int32(), reader.int32(), reader.int16(), reader.string(False), reader.boolean()
    partitions = {}
    for _ in range(reader.int32()):
        error, index = reader.int16(), reader.int32()
        partitions[index] = Leader(error, reader.int32(), reader.int32())
        for _ in range(3):
            _skip_nodes(reader)
    return brokers, [partitions[index] for index in sorted(partitions)]


def _skip_nodes(reader: Reader) -> None:
    for _ in range(reader.int32()):
        reader.int32()
