"""Prebuilt Kafka frames for load: written by hand against the protocol, sharing no code with what they measure.

A prebuilt frame costs the load generator next to nothing, which matters on a machine where it shares two cores with the
servers. Batches are valid (Apache Kafka parses every record).
"""

import struct
from dataclasses import dataclass

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID = 0, 1, 2, 22
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, INIT_PRODUCER_ID_VERSION = 9, 12, 6, 1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CLIENT_ID = b"bench"


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def compact_string(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text


def record_batch(records: int, value_size: int, timestamp_ms: int) -> bytes:
    """A v2 batch without producer id or compression; values are `value_size` bytes that do not repeat within 251."""
    value = bytes(i % 251 for i in range(value_size))
    body = bytearray()
    for delta in range(records):
        record = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        body += varint(len(record)) + record
    after_crc = struct.pack(">hiqqqhii", 0, records - 1, timestamp_ms, timestamp_ms, -1, -1, -1, records) + body
    after_length = struct.pack(">ibI", -1, 2, crc32c.crc32c(after_crc)) + after_crc
    return struct.pack(">qi", 0, len(after_length)) + after_length


def batch_of_about(size: int, value_size: int, timestamp_ms: int) -> tuple[bytes, int]:
    """The fullest batch of at most `size` bytes, and its number of records."""
    if size <= value_size + 80:
        return record_batch(1, size - 61 - 12, timestamp_ms), 1
    records = (size - 61) // (value_size + 10)
    return record_batch(records, value_size, timestamp_ms), records


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api_key: int, version: int, client_id: bytes = CLIENT_ID) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, len(client_id)) + client_id + b"\0"


def produce_frame(topic: str, partition: int, batch: bytes, acks: int, client_id: bytes = CLIENT_ID) -> bytes:
    name = topic.encode()
    partition_data = struct.pack(">i", partition) + uvarint(len(batch) + 1) + batch + b"\0"
    topics = b"\x02" + compact_string(name) + b"\x02" + partition_data + b"\0"
    return _framed(_header(PRODUCE, PRODUCE_VERSION, client_id) + b"\0" + struct.pack(">hi", acks, 30_000) + topics + b"\0")


def produce_error_position(topic: str) -> int:
    """The place of the only partition's error code in a response frame, from the length prefix on."""
    return 4 + 4 + 1 + 1 + len(compact_string(topic.encode())) + 1 + 4


@dataclass(frozen=True)
class FetchFrame:
    frame: bytes
    offset_position: int
    """Where the int64 fetch offset stands, to be patched in place."""

    def at(self, offset: int) -> bytes:
        """The frame that asks from that offset on."""
        frame = bytearray(self.frame)
        struct.pack_into(">q", frame, self.offset_position, offset)
        return bytes(frame)


def fetch_frame(topic: str, partition: int, max_bytes: int, isolation: int = READ_UNCOMMITTED) -> FetchFrame:
    head = _header(FETCH, FETCH_VERSION)
    head += struct.pack(">iiiibii", -1, 500, 1, max_bytes, isolation, 0, -1)
    head += b"\x02" + compact_string(topic.encode()) + b"\x02" + struct.pack(">ii", partition, -1)
    tail = struct.pack(">iqi", -1, -1, max_bytes) + b"\0\0" + b"\x01" + b"\x01" + b"\0"
    return FetchFrame(_framed(head + struct.pack(">q", 0) + tail), 4 + len(head))


def fetch_error_position(topic: str) -> int:
    """The place of the partition's error code: after correlation id, throttle, top error, session id and the names."""
    return 4 + 4 + 1 + 4 + 2 + 4 + 1 + len(compact_string(topic.encode())) + 1 + 4


def next_offset(answer: bytes, topic: str) -> int:
    """The offset behind the last whole batch of a fetch answer; -1 if it has none."""
    place = fetch_error_position(topic) + 2 + 3 * 8
    aborted, place = _uvarint_at(answer, place)
    place += max(aborted - 1, 0) * 17 + 4
    size, place = _uvarint_at(answer, place)
    end, found = place + size - 1, -1
    while place + 61 <= end:
        offset, length, last_offset_delta = struct.unpack_from(">qi11xi", answer, place)
        place += 12 + length
        if place <= end:
            found = offset + last_offset_delta + 1
    return found


def _uvarint_at(data: bytes, place: int) -> tuple[int, int]:
    """The number, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def init_producer_id_frame() -> bytes:
    """Of a producer that is idempotent and has no transactional id."""
    header = struct.pack(">hhih", INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, 7, len(CLIENT_ID)) + CLIENT_ID
    return _framed(header + struct.pack(">hi", -1, 60_000))


INIT_PRODUCER_ID_ERROR_POSITION = 4 + 4 + 4


def producer_of(answer: bytes) -> tuple[int, int]:
    """The producer id and epoch."""
    producer_id, epoch = struct.unpack_from(">qh", answer, INIT_PRODUCER_ID_ERROR_POSITION + 2)
    return producer_id, epoch


def list_offsets_frame(topic: str, partition: int, timestamp_ms: int) -> bytes:
    partition_data = struct.pack(">iiq", partition, -1, timestamp_ms) + b"\0"
    topics = b"\x02" + compact_string(topic.encode()) + b"\x02" + partition_data + b"\0"
    return _framed(_header(LIST_OFFSETS, LIST_OFFSETS_VERSION) + struct.pack(">ib", -1, 0) + topics + b"\0")


def list_offsets_error_position(topic: str) -> int:
    """After length, correlation id, header tags, throttle, counts, name and partition index."""
    return 4 + 4 + 1 + 4 + 1 + len(compact_string(topic.encode())) + 1 + 4


def sequenced(batch: bytearray, producer: tuple[int, int], sequence: int) -> None:
    """Gives a batch of `record_batch` a producer id and epoch, and a base sequence, in place."""
    struct.pack_into(">qhi", batch, 43, *producer, sequence)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(memoryview(batch)[21:]))


def stamped(batch: bytearray, timestamp_ms: int) -> None:
    """Gives a batch of `record_batch` another time, in place."""
    struct.pack_into(">qq", batch, 27, timestamp_ms, timestamp_ms)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(memoryview(batch)[21:]))
