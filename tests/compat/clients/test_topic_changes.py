"""Topics that appear, grow, go and come back while clients run."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import CLIENTS, Record, consume
from tests.compat.clients.kafka_python import KafkaProducer
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.polling import eventually, rounds
from tests.support.requirements import ROOT, require

WAIT_S = 60.0
REFRESH_MS = 300
# What librdkafka says of a topic that went, by itself or because we told it; `_DESTROY`: of a request that was under way.
GONE = {
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._DESTROY,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_is_made_when_a_client_writes_to_it(bootstrap: str, admin: Admin, topic: str, client: str) -> None:
    records = [Record(b"%d" % number, b"value") for number in range(10)]
    assert topic not in admin.names()
    CLIENTS[client].write(bootstrap, topic, records)
    assert CLIENTS["confluent-kafka"].read(bootstrap, topic, 10) == records


def test_a_producer_that_runs_outlives_its_topics_deletion(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=2)
    # Without this the producer itself would make the topic again, before we do.
    settings = {"allow.auto.create.topics": False, "topic.metadata.refresh.interval.ms": REFRESH_MS, "log_level": 0}
    settings |= {"topic.metadata.propagation.max.ms": 0, "linger.ms": 0, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message)
        else:
            failed.append(error)

    def produce_until(what: str, condition: Callable[[], object]) -> None:
        for number in rounds(what, within_s=60):
            try:
                producer.produce(topic, b"%s %d" % (what.encode(), number), on_delivery=report)
            except KafkaException as refused:  # once it knows that there is no such topic
                failed.append(refused.args[0])
            producer.poll(0.01)
            if condition():
                return

    produce_until("before", lambda: len(delivered) >= 50)
    admin.delete(topic)
    produce_until("gone", lambda: failed)
    assert {error.code() for error in failed} <= GONE
    admin.create(topic, partitions=2)
    produce_until("back", lambda: any(message.value().startswith(b"back") for message in delivered[-10:]))
    producer.flush(WAIT_S)
    back = [message for message in delivered if message.value().startswith(b"back")]
    for partition in (0, 1):
        here = {message.offset(): message.value() for message in back if message.partition() == partition}
        found = consume(bootstrap, topic, max(here, default=-1) + 1, partition=partition)
        assert not [message.value() for message in found if message.value().startswith(b"before")]
        assert {offset: value for offset, value in here.items() if found[offset].value() != value} == {}


def test_librdkafka_sees_partitions_that_are_added(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    settings = {"topic.metadata.refresh.interval.ms": REFRESH_MS, "sticky.partitioning.linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **settings})
    seen: set[int] = set()
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            seen.add(message.partition())
        else:
            failed.append(error)

    for number in rounds("all four partitions are written to", within_s=60):
        producer.produce(topic, b"%d" % number, on_delivery=report)
        producer.poll(0.01)
        if seen == {0} and admin.partition_count(topic) == 1:
            admin.grow(topic, 4)
        if seen == {0, 1, 2, 3}:
            break
    assert producer.flush(WAIT_S) == 0
    assert not failed


def test_kafka_python_sees_partitions_that_are_added(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    seen = set()
    with closing(KafkaProducer(bootstrap_servers=bootstrap, metadata_max_age_ms=REFRESH_MS)) as producer:
        for number in rounds("all four partitions are written to", within_s=60):
            seen.add(producer.send(topic, b"%d" % number).get(timeout=WAIT_S).partition)
            if number == 0:
                admin.grow(topic, 4)
            if seen == {0, 1, 2, 3}:
                break


async def test_aiokafka_sees_partitions_that_are_added(bootstrap: str, admin: Admin, topic: str) -> None:
    await asyncio.to_thread(admin.create, topic)
    seen = set()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, metadata_max_age_ms=REFRESH_MS) as producer:
        for number in rounds("all four partitions are written to", within_s=60):
            seen.add((await producer.send_and_wait(topic, b"%d" % number)).partition)
            if number == 0:
                await asyncio.to_thread(admin.grow, topic, 4)
            if seen == {0, 1, 2, 3}:
                break


@pytest.fixture
def java_producer(bootstrap: str, topic: str, tmp_path: Path) -> "Iterator[Iterator[dict[str, object]]]":
    """Kafka's VerifiableProducer, which writes without end; what it says, line by line."""
    require("java", "kafka")
    config = tmp_path / "producer.properties"
    config.write_text(
        f"metadata.max.age.ms={REFRESH_MS}\nlinger.ms=0\npartitioner.adaptive.partitioning.enable=false\nbatch.size=1\n",
        encoding="utf-8",
    )
    asked = ("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "200", "--command-config", str(config))
    command = KafkaJars(ROOT).command(TOOLS["kafka-verifiable-producer"], *asked, options=TOOL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield (json.loads(line) for line in process.stdout)
        finally:
            process.kill()  # asked to stop, it would wait two minutes for records of partitions that are gone


def test_javas_producer_sees_added_partitions_and_outlives_its_topics_deletion(
    admin: Admin, topic: str, java_producer: "Iterator[dict[str, object]]"
) -> None:
    """Its own requests for metadata make the topic again, as they would in Kafka."""
    sent = (said for said in java_producer if said["name"] == "producer_send_success")
    assert next(sent)["partition"] == 0
    admin.grow(topic, 3)
    seen = {next(sent)["partition"] for _ in rounds_of(sent, lambda said: said["partition"] == 2)}
    assert seen
    highest = max(int(str(next(sent)["offset"])) for _ in range(30))
    admin.client.delete_topics([topic])[topic].result()
    for _ in rounds_of(sent, lambda said: int(str(said["offset"])) < highest and said["partition"] == 0):
        pass
    eventually(lambda: topic in admin.names() and admin.partition_count(topic) == 1)


def rounds_of(said: "Iterator[dict[str, object]]", wanted: "Callable[[dict[str, object]], bool]") -> Iterator[int]:
    """Rounds of polls until one of the records is wanted."""
    for number in rounds("the producer says what we wait for", within_s=60):
        if wanted(next(said)):
            return
        yield number
