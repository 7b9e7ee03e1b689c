"""A minimal Kafka client, for requests that no real client would send."""

import asyncio
import ssl
import struct
from dataclasses import dataclass

from libs.wire.primitives import Reader, Writer

PRODUCE, FETCH, METADATA, API_VERSIONS, DESCRIBE_CLUSTER = 0, 1, 3, 18, 60
FLEXIBLE_FROM = {PRODUCE: 9, FETCH: 12, METADATA: 9, API_VERSIONS: 3, DESCRIBE_CLUSTER: 0}

Topic = str | bytes
"""By name, or by id (16 bytes) from version 13."""


def frame(api_key: int, version: int, correlation_id: int, body: bytes, client_id: bytes = b"test") -> bytes:
    header = struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
    if version >= FLEXIBLE_FROM.get(api_key, 1 << 15):
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_body(
    version: int,
    topics: list[tuple[Topic, list[tuple[int, bytes | None]]]],
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
    transactional_id: str | None = None,
) -> bytes:
    writer, flexible = Writer(), version >= 9
    writer.nullable_string(transactional_id, flexible)
    writer.int16(acks)
    writer.int32(timeout_ms)
    writer.array_length(len(topics), flexible)
    for topic, partitions in topics:
        _topic(writer, topic, flexible)
        writer.array_length(len(partitions), flexible)
        for index, records in partitions:
            writer.int32(index)
            writer.nullable_data(records, flexible)
            _no_tags(writer, flexible)
        _no_tags(writer, flexible)
    _no_tags(writer, flexible)
    return bytes(writer.buffer)


@dataclass
class Produced:
    topic: Topic
    index: int
    error: int
    base_offset: int
    message: str | None = None
    leader: int = -1
    leader_epoch: int = -1


def read_produced(reader: Reader, version: int) -> tuple[list[Produced], list[tuple[int, str, int]]]:
    """(partitions, node endpoints)"""
    flexible, produced = version >= 9, []
    for _ in range(reader.array_length(flexible)):
        topic = _read_topic(reader, version, flexible)
        for _ in range(reader.array_length(flexible)):
            result = Produced(topic, reader.int32(), reader.int16(), reader.int64())
            reader.int64()
            if version >= 5:
                reader.int64()
            if version >= 8:
                for _ in range(reader.array_length(flexible)):
                    reader.int32()
                    reader.nullable_string(flexible)
                    _skip_tags(reader, flexible)
                result.message = reader.nullable_string(flexible)
            if flexible:
                for tag, field in reader.tagged_fields():
                    if tag == 0:
                        result.leader, result.leader_epoch = field.int32(), field.int32()
            produced.append(result)
        _skip_tags(reader, flexible)
    reader.int32()
    return produced, _read_endpoints(reader, flexible)


def fetch_body(
    version: int,
    topics: list[tuple[Topic, list[tuple[int, int]]]],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 30,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    replica_id: int = -1,
    isolation: int = 0,
    rack: str = "",
) -> bytes:
    """`topics`: (topic, [(partition, offset)])."""
    writer, flexible = Writer(), version >= 12
    if version <= 14:
        writer.int32(replica_id)
    for value in (max_wait_ms, min_bytes, max_bytes):
        writer.int32(value)
    writer.int8(isolation)
    if version >= 7:
        writer.int32(session[0])
        writer.int32(session[1])
    writer.array_length(len(topics), flexible)
    for topic, partitions in topics:
        _topic(writer, topic, flexible)
        writer.array_length(len(partitions), flexible)
        for index, offset in partitions:
            writer.int32(index)
            if version >= 9:
                writer.int32(leader_epoch)
            writer.int64(offset)
            if version >= 12:
                writer.int32(-1)
            if version >= 5:
                writer.int64(-1)
            writer.int32(partition_max_bytes)
            _no_tags(writer, flexible)
        _no_tags(writer, flexible)
    if version >= 7:
        writer.array_length(0, flexible)
    if version >= 11:
        writer.string(rack, flexible)
    _no_tags(writer, flexible)
    return bytes(writer.buffer)


@dataclass
class Fetched:
    topic: Topic
    index: int
    error: int
    high_watermark: int
    records: bytes
    leader: int = -1
    leader_epoch: int = -1
    last_stable_offset: int = -1
    aborted: list[tuple[int, int]] | None = None  # (producer id, first offset)
    preferred: int = -1
    diverging: tuple[int, int] = (-1, -1)  # (epoch, end offset)


def read_fetched(reader: Reader, version: int) -> tuple[int, list[Fetched], list[tuple[int, str, int]]]:
    """(top-level error, partitions, node endpoints)"""
    flexible, fetched, error = version >= 12, [], 0
    reader.int32()
    if version >= 7:
        error = reader.int16()
        reader.int32()
    for _ in range(reader.array_length(flexible)):
        topic = _read_topic(reader, version, flexible)
        for _ in range(reader.array_length(flexible)):
            result = Fetched(topic, reader.int32(), reader.int16(), reader.int64(), b"")
            result.last_stable_offset = reader.int64()
            if version >= 5:
                reader.int64()
            aborted = reader.nullable_array_length(flexible)
            result.aborted = [] if aborted >= 0 else None
            for _ in range(aborted):
                assert result.aborted is not None
                result.aborted.append((reader.int64(), reader.int64()))
                _skip_tags(reader, flexible)
            if version >= 11:
                result.preferred = reader.int32()
            result.records = bytes(reader.nullable_data(flexible) or b"")
            if flexible:
                for tag, field in reader.tagged_fields():
                    if tag == 0:
                        result.diverging = field.int32(), field.int64()
                    if tag == 1:
                        result.leader, result.leader_epoch = field.int32(), field.int32()
            fetched.append(result)
        _skip_tags(reader, flexible)
    return error, fetched, _read_endpoints(reader, flexible)


class RawClient:
    """One connection. `connect` first. Answers are read in their order of arrival."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(
        cls, port: int, *, limit: int = 1 << 24, address: str = "", tls: ssl.SSLContext | None = None
    ) -> "RawClient":
        """Connects from `address`, one of this host's. Empty: any."""
        local = (address, 0) if address else None
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit, local_addr=local, ssl=tls))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def end(self) -> None:
        """Sends nothing any more."""
        self._writer.write_eof()

    async def drain(self) -> None:
        await self._writer.drain()

    def ask(self, api_key: int, version: int, body: bytes, *, correlation_id: int = 1, client_id: bytes = b"test") -> None:
        self.send(frame(api_key, version, correlation_id, body, client_id))

    async def answer(self, api_key: int = -1, version: int = -1) -> tuple[int, Reader]:
        """(correlation id, reader of the body). Raises IncompleteReadError when the connection ends first."""
        async with asyncio.timeout(60):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            reader = Reader(memoryview(await self._reader.readexactly(length)))
        correlation_id = reader.int32()
        if api_key != API_VERSIONS and version >= FLEXIBLE_FROM.get(api_key, 1 << 15):
            reader.skip_tagged_fields()
        return correlation_id, reader

    async def frame(self) -> bytes:
        """The next frame, whatever it holds."""
        async with asyncio.timeout(60):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(length)

    async def produce(self, version: int, body: bytes) -> list[Produced]:
        self.ask(PRODUCE, version, body)
        return read_produced((await self.answer(PRODUCE, version))[1], version)[0]

    async def fetch(self, version: int, body: bytes) -> tuple[int, list[Fetched]]:
        self.ask(FETCH, version, body)
        return read_fetched((await self.answer(FETCH, version))[1], version)[:2]

    async def ended(self) -> bool:
        """Waits until the gateway closes the connection, and ignores everything received before."""
        async with asyncio.timeout(60):
            try:
                while await self._reader.read(1 << 16):
                    pass
            except ConnectionResetError:
                pass
        return True

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(5):
                await self._writer.wait_closed()
        except ConnectionError:
            pass
        except TimeoutError:
            self._writer.transport.abort()  # the gateway does not read what was sent


def _topic(writer: Writer, topic: Topic, flexible: bool) -> None:
    if isinstance(topic, bytes):
        writer.uuid(topic)
    else:
        writer.string(topic, flexible)


def _read_topic(reader: Reader, version: int, flexible: bool) -> Topic:
    return reader.uuid() if version >= 13 else reader.string(flexible)


def _read_endpoints(reader: Reader, flexible: bool) -> list[tuple[int, str, int]]:
    endpoints = []
    if flexible:
        for tag, field in reader.tagged_fields():
            if tag == 0:
                for _ in range(field.array_length(True)):
                    endpoints.append((field.int32(), field.string(True), field.int32()))
                    field.nullable_string(True)
                    field.skip_tagged_fields()
    reader.expect_end()
    return endpoints


def _no_tags(writer: Writer, flexible: bool) -> None:
    if flexible:
        writer.no_tagged_fields()


def _skip_tags(reader: Reader, flexible: bool) -> None:
    if flexible:
        reader.skip_tagged_fields()
