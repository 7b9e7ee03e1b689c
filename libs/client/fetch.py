"""Fetch as a client asks for it, of one partition. `libs.wire` has only the broker's side."""

from collections.abc import Sequence
from dataclasses import dataclass

from libs.client.kafka_connection import KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.primitives import Writer

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_VERSION = 4


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Record batches as the log has them, the last perhaps cut off. `aborted` has (producer id, first offset) of each aborted
    transaction that overlaps the batches, if the Fetch was read_committed."""

    records: bytes | memoryview
    aborted: Sequence[tuple[int, int]]
    error_code: int = ErrorCode.NONE


def fetch_batches(
    connection: KafkaConnection,
    topic: str,
    partition: int,
    offset: int,
    *,
    wait_ms: int,
    bytes_max: int,
    isolation: int = READ_UNCOMMITTED,
) -> FetchedBatches:
    """At least one batch if there is one: a broker returns the first whole, whatever its size."""
    writer = Writer()
    for number in (-1, wait_ms, 1, bytes_max):  # replica, wait, least and most bytes
        writer.int32(number)
    writer.int8(isolation)
    writer.int32(1)
    writer.string(topic, flexible=False)
    writer.int32(1)
    writer.int32(partition)
    writer.int64(offset)
    writer.int32(bytes_max)
    reader = connection.ask(ApiKey.FETCH, _VERSION, writer)
    reader.int32()  # throttle time
    reader.array_length(False)
    reader.string(False)
    reader.array_length(False)
    reader.int32()
    error_code = reader.int16()
    reader.int64(), reader.int64()  # high watermark, last stable offset
    aborted = [(reader.int64(), reader.int64()) for _ in range(reader.nullable_array_length(False))]
    return FetchedBatches(reader.nullable_data(False) or b"", aborted, error_code)
