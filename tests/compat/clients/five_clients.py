"""The five clients behind one interface: write records to a partition, read a partition from its beginning.

Each uses its own defaults but for what a call names. Writers return when everything was acknowledged, readers when they have as
many records as were asked for. kcat and the Java tools carry text without tabs and newlines, and no headers.
"""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from tests.compat.clients import kafka_python
from tests.compat.kafka.tools import run_kcat, run_tool
from tests.support.polling import rounds

ANSWER_S = 120.0
# librdkafka counts the batch's overhead too, and its default of 1,000,000 is less than a topic's.
BATCH_BYTES_MAX = 1_048_588


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Client(Protocol):
    def write(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0
    ) -> None: ...

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]: ...


class ConfluentKafka:
    def write(self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0) -> None:
        settings = {"enable.idempotence": True, "compression.type": codec, "message.max.bytes": BATCH_BYTES_MAX}
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **settings})
        failures: list[object] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                headers=list(record.headers),
                on_delivery=lambda error, message: failures.append(error) if error else None,
            )
        assert producer.flush(ANSWER_S) == 0
        assert not failures

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        return [
            Record(message.key(), message.value(), tuple(message.headers() or ()))
            for message in consume(bootstrap, topic, count, partition=partition)
        ]


def consume(bootstrap: str, topic: str, count: int, *, partition: int = 0, **settings: object) -> list[Message]:
    """librdkafka's messages of one partition from its beginning. Settings are written with `_` for `.`."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **named})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    messages: list[Message] = []
    try:
        for _ in rounds(f"{count} records of {topic}-{partition}", ANSWER_S):
            if len(messages) >= count:
                return messages
            for message in consumer.consume(num_messages=10_000, timeout=0.2):
                assert message.error() is None, message.error()
                messages.append(message)
    finally:
        consumer.close()
    raise AssertionError("unreachable: rounds() ends by raising")


class KafkaPython:
    def write(self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0) -> None:
        compression = None if codec == "none" else codec
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, max_request_size=2 * BATCH_BYTES_MAX
        )
        try:
            sent = [
                producer.send(topic, record.value, record.key, headers=list(record.headers), partition=partition)
                for record in records
            ]
            for future in sent:
                future.get(timeout=ANSWER_S)
        finally:
            producer.close()

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        consumer = kafka_python.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
        where = kafka_python.TopicPartition(topic, partition)
        found: list[Record] = []
        try:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            for _ in rounds(f"{count} records of {where}", ANSWER_S):
                if len(found) >= count:
                    break
                for message in consumer.poll(timeout_ms=200).get(where, ()):
                    found.append(Record(message.key, message.value, tuple(message.headers)))
        finally:
            consumer.close()
        return found


class Aiokafka:
    def write(self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0) -> None:
        asyncio.run(self._write(bootstrap, topic, records, codec, partition))

    async def _write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str, partition: int) -> None:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, max_request_size=2 * BATCH_BYTES_MAX
        ) as producer:
            sent = [
                await producer.send(topic, record.value, record.key, partition=partition, headers=list(record.headers))
                for record in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), ANSWER_S)

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        return asyncio.run(asyncio.wait_for(self._read(bootstrap, topic, count, partition), ANSWER_S))

    async def _read(self, bootstrap: str, topic: str, count: int, partition: int) -> list[Record]:
        where = AioTopicPartition(topic, partition)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            found: list[Record] = []
            while len(found) < count:
                for message in (await consumer.getmany(where, timeout_ms=200)).get(where, ()):
                    found.append(Record(message.key, message.value, tuple(message.headers)))
            return found


class Kcat:
    def write(self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0) -> None:
        where = ("-b", bootstrap, "-t", topic, "-p", str(partition), "-K", "\t", "-z", codec)
        run_kcat("-P", *where, "-X", "queue.buffering.max.ms=20", stdin=_lines(records), timeout_s=ANSWER_S)

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        where = ("-b", bootstrap, "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count))
        written = run_kcat("-C", "-e", "-q", *where, "-f", "%K %S %k%s", timeout_s=ANSWER_S).stdout
        return list(_sized(written))


def _sized(written: bytes) -> "list[Record]":
    """The records of `LENGTH LENGTH KEYVALUE` lines without separators; a length of -1 is null."""
    records, position = [], 0
    while position < len(written):
        sizes = re.compile(rb"(-?\d+) (-?\d+) ").match(written, position)
        assert sizes, written[position : position + 100]
        key_size, value_size = int(sizes[1]), int(sizes[2])
        key_end = sizes.end() + max(key_size, 0)
        position = key_end + max(value_size, 0)
        key = None if key_size < 0 else written[sizes.end() : key_end]
        records.append(Record(key, None if value_size < 0 else written[key_end:position]))
    return records


class JavaConsole:
    def write(self, bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", partition: int = 0) -> None:
        assert partition == 0, "the console producer cannot name a partition"
        where = ("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec)
        run_tool(
            "kafka-console-producer", *where, "--reader-property", "parse.key=true", stdin=_lines(records), timeout_s=ANSWER_S
        )

    def read(self, bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Record]:
        where = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", str(partition), "--offset", "earliest")
        written = run_tool(
            *("kafka-console-consumer", *where, "--max-messages", str(count), "--formatter-property", "print.key=true"),
            timeout_s=ANSWER_S,
        ).stdout
        return [Record(*line.split(b"\t", 1)) for line in written.splitlines()]


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(b"%s\t%s\n" % (record.key, record.value) for record in records)


CLIENTS: dict[str, Client] = {
    "confluent-kafka": ConfluentKafka(),
    "kafka-python": KafkaPython(),
    "aiokafka": Aiokafka(),
    "kcat": Kcat(),
    "java": JavaConsole(),
}
# Those that can carry any bytes, nulls and headers.
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")


def read_by_all(bootstrap: str, topic: str, count: int) -> dict[str, list[Record]]:
    """The records that each client reads of partition 0 from its beginning, all at the same time."""
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        going = {name: pool.submit(client.read, bootstrap, topic, count) for name, client in CLIENTS.items()}
        return {name: read.result() for name, read in going.items()}
