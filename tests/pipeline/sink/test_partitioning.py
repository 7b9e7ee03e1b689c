"""The same key goes to the same partition, whichever client writes it."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from services.pipeline.transforms.partitioning import content_hashes, murmur2, partitions_of_hashes
from tests.compat.kafka.tools import run_tool
from tests.pipeline.sink.topics import read_topic
from tests.pipeline.topics import make_topic
from tests.support.cluster_harness import LocalCluster

# Results of `UtilsTest.testMurmur2` of Apache Kafka, and of strings with every remainder of four.
KAFKAS_OWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
PARTITIONS = 7


def columns(rows: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(row) for row in rows], np.int64)
    return np.frombuffer(b"".join(rows), np.uint8), np.concatenate([[0], np.cumsum(lengths)])[:-1], lengths


def test_hashes_are_those_of_kafkas_own_test() -> None:
    hashes = murmur2(*columns(list(KAFKAS_OWN)))
    assert [int(number) for number in hashes.view(np.int32)] == list(KAFKAS_OWN.values())


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_a_hash_does_not_depend_on_the_other_rows(rows: list[bytes]) -> None:
    together = murmur2(*columns(rows))
    assert [int(number) for number in together] == [int(murmur2(*columns([row]))[0]) for row in rows]


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 1 << 41)), min_size=1, max_size=20))
def test_rows_without_a_key_are_placed_by_value_and_time_alone(rows: list[tuple[bytes, int]]) -> None:
    values, times = [value for value, _ in rows], np.array([time for _, time in rows], np.int64)
    together = content_hashes(*columns(values), times)
    alone = [content_hashes(*columns([value]), np.array([time], np.int64))[0] for value, time in rows]
    assert list(together) == alone


@pytest.mark.filterwarnings("ignore:.*Use files.. instead:DeprecationWarning")  # from an import of kafka-python
def test_each_client_puts_a_key_where_the_sink_puts_it(cluster: LocalCluster, topic: str) -> None:
    keys = [f"key-{number}".encode() for number in range(200)]
    ours = {key: int(place) for key, place in zip(keys, partitions_of_hashes(murmur2(*columns(keys)), PARTITIONS), strict=True)}
    make_topic(cluster.bootstrap, topic, PARTITIONS)
    _produce_with_librdkafka(cluster.bootstrap, topic, keys)
    _produce_with_java(cluster.bootstrap, topic, keys)
    _produce_with_kafka_python(cluster.bootstrap, topic, keys)
    _produce_with_aiokafka(cluster.bootstrap, topic, keys)
    placed = [(record.key, record.partition) for record in read_topic(cluster.bootstrap, topic)]
    assert len(placed) == 4 * len(keys)
    assert dict(placed) == ours
    assert set(placed) == set(ours.items())


def _produce_with_librdkafka(bootstrap: str, topic: str, keys: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, b"value", key)
    producer.flush()


def _produce_with_java(bootstrap: str, topic: str, keys: Sequence[bytes]) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--reader-property", "parse.key=true"]
    lines = b"".join(key + b"\tvalue\n" for key in keys)
    assert run_tool("kafka-console-producer", *arguments, stdin=lines).returncode == 0


def _produce_with_kafka_python(bootstrap: str, topic: str, keys: Sequence[bytes]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    sent = [producer.send(topic, b"value", key) for key in keys]
    for each in sent:
        each.get(60)
    producer.close()


def _produce_with_aiokafka(bootstrap: str, topic: str, keys: Sequence[bytes]) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for sent in [await producer.send(topic, b"value", key) for key in keys]:
                await sent

    asyncio.run(produce())
