"""A Kafka client's protocol over a simulated stream: one connection, and the requests and answers that the clients here need."""

import asyncio
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from crc32c import crc32c

from libs.rpc.transport.transport import Stream
from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, read_response_header, write_request_header
from libs.wire.messages import create_topics, delete_topics, incremental_alter_configs, init_producer_id, list_offsets
from libs.wire.primitives import Reader, Writer
from libs.wire.record_batches.batch_layout import CRC_START, HEADER_SIZE, LENGTH_END
from libs.wire.record_batches.records import iter_records
from tests.gateway.kafka_client import Fetched, Produced, fetch_body, produce_body, read_fetched, read_produced
from tests.simulation.cluster.network import SimulatedTransport

T = TypeVar("T")

Partition = tuple[str, int]

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 9, 12, 9
BY_ID_VERSION = 13
"""Of Produce and of Fetch: from here on they name topics by their ids."""
LIST_OFFSETS_VERSION, CREATE_TOPICS_VERSION, INIT_PRODUCER_ID_VERSION = 6, 5, 4
DELETE_TOPICS_VERSION, ALTER_CONFIGS_VERSION = 4, 1
CREATE_WITH_ID_VERSION = 7
CONNECT_S_MAX = 3.0
RECEIVE_BYTES = 64 * 1024
LATEST = -1
TOPIC, BROKER, SET = 2, 4, 0
UNCOMMITTED, COMMITTED = 0, 1


class Disconnected(Exception):
    """`sent`: the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Link:
    """One connection to one port of a gateway. Requests may overlap; answers come in the order of requests."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._space = memoryview(bytearray(RECEIVE_BYTES))
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._last_id = 0
        self.client_id = "simulated"
        self.lost = False

    @classmethod
    async def connect(cls, transport: SimulatedTransport, address: tuple[str, int]) -> "Link":
        made: list[Link] = []

        def make(stream: Stream) -> Link:
            made.append(cls(stream))
            return made[0]

        try:
            await transport.connect(f"tcp:{address[0]}:{address[1]}", make, CONNECT_S_MAX)
        except OSError as error:
            raise Disconnected(f"no connection: {error}", sent=False) from None
        return made[0]

    async def ask(self, key: ApiKey, version: int, body: bytes, timeout_s: float) -> Reader:
        """Raises Disconnected. After a timeout the connection is closed, as clients do."""
        return await self.begin(key, version, body).answer(timeout_s)

    def begin(self, key: ApiKey, version: int, body: bytes) -> "SentRequest":
        """Sends it. Raises Disconnected."""
        if self.lost:
            raise Disconnected("the connection was lost", sent=False)
        self._last_id += 1
        number = self._last_id
        writer = Writer()
        write_request_header(writer, RequestHeader(key, version, number, self.client_id))
        self._stream.write(struct.pack(">i", len(writer.buffer) + len(body)), bytes(writer.buffer), body)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        return SentRequest(self, key, version, answer)

    def abort(self, reason: str) -> None:
        if not self.lost:
            self._stream.abort(ConnectionAbortedError(reason))
            self.lost = True

    def close(self) -> None:
        self.abort("closed")

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        self._received += self._space[:nbytes]
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            frame = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            answer = self._waiting.pop(int.from_bytes(frame[:4], "big"))
            if not answer.done():
                answer.set_result(memoryview(frame))

    def descriptors_received(self, fds: list[int] | None) -> None:
        raise AssertionError("no descriptors come by TCP")

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.lost = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Disconnected(f"lost: {reason}" if reason else "closed", sent=True))
        self._waiting.clear()


class SentRequest:
    """A request that was sent on a connection and has no response yet."""

    def __init__(self, link: Link, key: ApiKey, version: int, answer: "asyncio.Future[memoryview]") -> None:
        self._link, self._key, self._version, self._answer = link, key, version, answer

    def forget(self) -> None:
        """Nobody waits for its answer."""
        self._answer.cancel()

    async def answer(self, timeout_s: float) -> Reader:
        """Raises Disconnected, and then the connection is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                reader = Reader(await self._answer)
        except TimeoutError:
            self._link.abort("no answer in time")
            raise Disconnected(f"no answer to {self._key.name} in {timeout_s} s", sent=True) from None
        read_response_header(reader, self._key, self._version)
        return reader


@dataclass
class Metadata:
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    leaders: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """(leader, leader epoch) where there is one."""
    in_sync: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


async def metadata(link: Link, topics: list[str], timeout_s: float) -> Metadata:
    writer = Writer()
    writer.array_length(len(topics), True)
    for topic in topics:
        writer.string(topic, True)
        writer.no_tagged_fields()
    for flag in (False, False, False):
        writer.boolean(flag)
    writer.no_tagged_fields()
    reader = await link.ask(ApiKey.METADATA, METADATA_VERSION, bytes(writer.buffer), timeout_s)
    reader.int32()
    found = Metadata()
    for _ in range(reader.array_length(True)):
        node = reader.int32()
        found.brokers[node] = (reader.string(True), reader.int32())
        reader.nullable_string(True)
        reader.skip_tagged_fields()
    reader.nullable_string(True)
    reader.int32()
    for _ in range(reader.array_length(True)):
        error, name, _internal = reader.int16(), reader.string(True), reader.boolean()
        if error:
            found.errors[name] = error
        for _ in range(reader.array_length(True)):
            error, index, leader, epoch = reader.int16(), reader.int32(), reader.int32(), reader.int32()
            _replicas, isr, _offline = (_numbers(reader) for _ in range(3))
            reader.skip_tagged_fields()
            if leader >= 0 and not error:
                found.leaders[name, index] = leader, epoch
            found.in_sync[name, index] = isr
        reader.int32()
        reader.skip_tagged_fields()
    return found


def _numbers(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.int32() for _ in range(reader.array_length(True)))


async def create(link: Link, topics: list[create_topics.CreatableTopic], timeout_s: float) -> dict[str, tuple[int, str | None]]:
    """(error, message) by topic."""
    request = create_topics.CreateTopicsRequest(topics, timeout_ms=int(timeout_s * 1000))
    answer = await call(
        link,
        ApiKey.CREATE_TOPICS,
        CREATE_TOPICS_VERSION,
        create_topics.write_request,
        request,
        create_topics.read_response,
        timeout_s + 1,
    )
    return {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}


async def create_one(link: Link, topic: create_topics.CreatableTopic, timeout_s: float) -> tuple[int, bytes]:
    """(error, topic id)"""
    request = create_topics.CreateTopicsRequest([topic], timeout_ms=int(timeout_s * 1000))
    answer = await call(
        link,
        ApiKey.CREATE_TOPICS,
        CREATE_WITH_ID_VERSION,
        create_topics.write_request,
        request,
        create_topics.read_response,
        timeout_s + 1,
    )
    return answer.topics[0].error_code, answer.topics[0].topic_id


async def delete(link: Link, topic: str, timeout_s: float) -> int:
    """The error."""
    request = delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=int(timeout_s * 1000))
    answer = await call(
        link,
        ApiKey.DELETE_TOPICS,
        DELETE_TOPICS_VERSION,
        delete_topics.write_request,
        request,
        delete_topics.read_response,
        timeout_s + 1,
    )
    return answer.responses[0].error_code


async def configure(link: Link, topic: str, name: str, value: str, timeout_s: float) -> int:
    """The error. The topic "" stands for all brokers."""
    config = incremental_alter_configs.AlterableConfig(name, SET, value)
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC if topic else BROKER, topic, [config])
    answer = await call(
        link,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ALTER_CONFIGS_VERSION,
        incremental_alter_configs.write_request,
        incremental_alter_configs.IncrementalAlterConfigsRequest([resource]),
        incremental_alter_configs.read_response,
        timeout_s,
    )
    return answer.responses[0].error_code


async def new_producer_id(link: Link, timeout_s: float) -> tuple[int, int, int]:
    """(error, producer id, epoch)"""
    request = init_producer_id.InitProducerIdRequest(None, 60_000)
    answer = await call(
        link,
        ApiKey.INIT_PRODUCER_ID,
        INIT_PRODUCER_ID_VERSION,
        init_producer_id.write_request,
        request,
        init_producer_id.read_response,
        timeout_s,
    )
    return answer.error_code, answer.producer_id, answer.producer_epoch


async def end_offset(link: Link, partition: Partition, timeout_s: float, *, isolation: int = UNCOMMITTED) -> tuple[int, int]:
    """(error, offset): what a consumer may read up to."""
    asked = list_offsets.ListOffsetsPartition(partition[1], -1, LATEST)
    request = list_offsets.ListOffsetsRequest(-1, isolation, [list_offsets.ListOffsetsTopic(partition[0], [asked])])
    answer = await call(
        link,
        ApiKey.LIST_OFFSETS,
        LIST_OFFSETS_VERSION,
        list_offsets.write_request,
        request,
        list_offsets.read_response,
        timeout_s,
    )
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


async def produce(
    link: Link,
    partition: Partition,
    batch: bytes,
    acks: int,
    timeout_s: float,
    *,
    version: int = PRODUCE_VERSION,
    transactional_id: str | None = None,
    topic_id: bytes | None = None,
) -> Produced:
    """With the topic's id it reaches no other topic of that name. Raises Disconnected."""
    version = version if topic_id is None else BY_ID_VERSION
    body = _produce_body((topic_id or partition[0], partition[1]), batch, acks, timeout_s, version, transactional_id)
    return await end_produce(link.begin(ApiKey.PRODUCE, version, body), timeout_s, version)


def begin_produce(link: Link, partition: Partition, batch: bytes, acks: int, timeout_s: float) -> SentRequest:
    """Raises Disconnected."""
    body = _produce_body(partition, batch, acks, timeout_s, PRODUCE_VERSION, None)
    return link.begin(ApiKey.PRODUCE, PRODUCE_VERSION, body)


async def end_produce(asked: SentRequest, timeout_s: float, version: int = PRODUCE_VERSION) -> Produced:
    """Raises Disconnected."""
    return read_produced(await asked.answer(timeout_s), version)[0][0]


def _produce_body(
    partition: tuple[str | bytes, int], batch: bytes, acks: int, timeout_s: float, version: int, transactional_id: str | None
) -> bytes:
    topics: list[tuple[str | bytes, list[tuple[int, bytes | None]]]] = [(partition[0], [(partition[1], batch)])]
    timeout_ms = int(timeout_s * 1000 * 0.8)
    return produce_body(version, topics, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)


async def fetch(
    link: Link,
    positions: dict[Partition, int],
    timeout_s: float,
    *,
    max_wait_ms: int,
    max_bytes: int,
    isolation: int = UNCOMMITTED,
    topic_id: bytes | None = None,
) -> list[Fetched]:
    """`topic_id`: that of the only topic, so that no other topic of its name answers. Raises Disconnected."""
    by_topic: dict[str | bytes, list[tuple[int, int]]] = {}
    for (topic, index), offset in positions.items():
        by_topic.setdefault(topic_id or topic, []).append((index, offset))
    version = FETCH_VERSION if topic_id is None else BY_ID_VERSION
    topics = list(by_topic.items())
    body = fetch_body(version, topics, max_wait_ms=max_wait_ms, max_bytes=max_bytes, isolation=isolation)
    reader = await link.ask(ApiKey.FETCH, version, body, timeout_s)
    return read_fetched(reader, version)[1]


def records_of(fetched: Fetched, position: int) -> list[tuple[int, int]]:
    """(offset, value), from the position on. The last batch may be cut short. Raises AssertionError for a CRC."""
    records = (record for batch in batches_of(fetched) for record in iter_records(batch))
    return [(record.offset, int(record.value)) for record in records if record.offset >= position and record.value is not None]


def batches_of(fetched: Fetched) -> Iterator[bytes]:
    """The whole batches. Raises AssertionError for a CRC."""
    data, start = fetched.records, 0
    while len(data) - start >= HEADER_SIZE:
        end = start + LENGTH_END + int.from_bytes(data[start + 8 : start + LENGTH_END], "big")
        if end > len(data):
            break
        batch = data[start:end]
        assert crc32c(batch[CRC_START:]) == int.from_bytes(batch[17:CRC_START], "big"), f"CRC of the batch at byte {start}"
        yield batch
        start = end


def end_of(batches: bytes | memoryview) -> int:
    """Behind the last whole one; 0 if there is none."""
    data, start, found = memoryview(batches), 0, 0
    while len(data) - start >= HEADER_SIZE:
        end = start + LENGTH_END + int.from_bytes(data[start + 8 : start + LENGTH_END], "big")
        if end > len(data):
            break
        found = int.from_bytes(data[start : start + 8], "big") + int.from_bytes(data[start + 23 : start + 27], "big") + 1
        start = end
    return found


async def call(
    link: Link,
    key: ApiKey,
    version: int,
    write: Callable[..., object],
    request: object,
    read: Callable[[Reader, int], T],
    timeout_s: float,
) -> T:
    writer = Writer()
    write(writer, request, version)
    return read(await link.ask(key, version, bytes(writer.buffer), timeout_s), version)
