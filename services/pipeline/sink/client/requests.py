"""Produce, Fetch and ListOffsets as the sink asks for them. `libs.wire` has only the broker's side of Produce."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from libs.client.fetch import fetch_batches
from libs.client.kafka_connection import KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.messages import list_offsets
from libs.wire.primitives import Writer
from services.pipeline.sink.client.errors import Refused, refuse

PRODUCE_VERSION = 8  # the last without tagged fields
LATEST = -1
ACKS_ALL = -1
PRODUCE_TIMEOUT_MS = 20_000
FETCH_BYTES = 4 << 20
FETCH_WAIT_MS = 100


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True)
class ProducedBatch:
    code: int
    base_offset: int
    message: str | None


def send_produce(connection: KafkaConnection, transactional_id: str, batches: Mapping[TopicPartition, Sequence[Any]]) -> None:
    """Each batch comes as buffers. `receive_produce` reads the answer."""
    topics: dict[str, list[TopicPartition]] = {}
    for place in batches:
        topics.setdefault(place.topic, []).append(place)
    payload: list[Any] = []
    writer = head = Writer()
    head.nullable_string(transactional_id, flexible=False)
    head.int16(ACKS_ALL)
    head.int32(PRODUCE_TIMEOUT_MS)
    head.int32(len(topics))
    for topic, places in topics.items():
        writer.string(topic, flexible=False)
        writer.int32(len(places))
        for place in places:
            writer.int32(place.partition)
            writer.int32(sum(len(buffer) for buffer in batches[place]))
            payload += [*([] if writer is head else [writer.buffer]), *batches[place]]
            writer = Writer()
    connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, head, payload)


def receive_produce(connection: KafkaConnection) -> dict[TopicPartition, ProducedBatch]:
    reader = connection.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
    produced = {}
    for _ in range(reader.array_length(False)):
        topic = reader.string(False)
        for _ in range(reader.array_length(False)):
            index, code, base_offset, _, _ = (
                reader.int32(),
                reader.int16(),
                reader.int64(),
                reader.int64(),
                reader.int64(),
            )
            for _ in range(reader.array_length(False)):
                reader.int32()
                reader.nullable_string(False)
            produced[TopicPartition(topic, index)] = ProducedBatch(code, base_offset, reader.nullable_string(False))
    return produced


def fetch(connection: KafkaConnection, place: TopicPartition, offset: int) -> bytes | memoryview:
    """Record batches from an offset on, the last perhaps cut off: also those of open and aborted transactions, and markers.

    Raises Refused.
    """
    fetched = fetch_batches(connection, *place, offset, wait_ms=FETCH_WAIT_MS, bytes_max=FETCH_BYTES)
    refuse(f"Fetch of {place.topic}-{place.partition}", fetched.error_code)
    return fetched.records


def high_watermark(connection: KafkaConnection, place: TopicPartition) -> int:
    """Raises Refused."""
    asked = list_offsets.ListOffsetsPartition(partition_index=place.partition, timestamp=LATEST)
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[list_offsets.ListOffsetsTopic(place.topic, [asked])])
    response = connection.ask_message(list_offsets, ApiKey.LIST_OFFSETS, 2, request)
    answer: list_offsets.ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    if answer.error_code:
        raise Refused(f"ListOffsets of {place.topic}-{place.partition}", answer.error_code)
    return answer.offset
