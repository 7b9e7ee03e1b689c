"""Metadata as a client asks for it: brokers, and who leads which partition. `libs.wire` has only the broker's side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from libs.client.kafka_connection import KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.primitives import Writer


@dataclass(frozen=True)
class Broker:
    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class Partition:
    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class ClusterView:
    """A Metadata response. `errors`: the error code of each topic."""

    brokers: Mapping[int, Broker]
    partitions: tuple[Partition, ...]
    errors: Mapping[str, int]


def metadata(connection: KafkaConnection, topics: Sequence[str] | None = None) -> ClusterView:
    """All topics, or those named. Version 8, the last without tagged fields."""
    writer = Writer()
    writer.int32(-1 if topics is None else len(topics))
    for name in topics or ():
        writer.string(name, flexible=False)
    for flag in (False, False, False):  # no topic is created, and no authorized operations are asked for
        writer.boolean(flag)
    reader = connection.ask(ApiKey.METADATA, 8, writer)
    reader.int32()
    brokers = {}
    for _ in range(reader.array_length(False)):
        broker = Broker(reader.int32(), reader.string(False), reader.int32())
        reader.nullable_string(False)
        brokers[broker.node_id] = broker
    reader.nullable_string(False)
    reader.int32()
    partitions: list[Partition] = []
    errors = {}
    for _ in range(reader.array_length(False)):
        error_code, name = reader.int16(), reader.string(False)
        errors[name] = error_code
        reader.boolean()
        for _ in range(reader.array_length(False)):
            reader.int16()
            index, leader, _ = reader.int32(), reader.int32(), reader.int32()
            replicas, _, _ = (tuple(reader.int32() for _ in range(reader.array_length(False))) for _ in range(3))
            partitions.append(Partition(name, index, leader, replicas))
        reader.int32()
    return ClusterView(brokers, tuple(partitions), errors)
