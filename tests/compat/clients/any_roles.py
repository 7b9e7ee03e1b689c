"""What clients do in tests of both kinds of clusters, of separate services and of nodes. Topics are there already."""

import collections
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.compat.clients.five_clients import consume
from tests.compat.clients.kafka_python import KafkaProducer, OffsetAndMetadata
from tests.compat.clients.kafka_python import TopicPartition as PythonTopicPartition
from tests.compat.clients.transactions.transactional import read, transactional
from tests.support.polling import rounds

WAIT_S = 60.0
PARTITIONS = 50


def store_a_record_by_kafka_python(bootstrap: str, topic: str, acks: int | str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=acks == "all")) as producer:
        producer.send(topic, b"value").get(timeout=WAIT_S)
    assert [message.value() for message in consume(bootstrap, topic, 1)] == [b"value"]


def read_fifty_partitions_by_librdkafka(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(5_000):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = collections.defaultdict(list)
    for _ in rounds("5,000 records"):
        for message in consumer.consume(num_messages=5_000, timeout=0.2):
            assert message.error() is None
            found[message.partition()].append(int(message.value()))
        if sum(map(len, found.values())) == 5_000:
            break
    consumer.close()
    assert found == {partition: list(range(partition, 5_000, PARTITIONS)) for partition in range(PARTITIONS)}


def commit_and_abort_by_librdkafka(bootstrap: str, topic: str) -> None:
    """The topic has two partitions, here and below."""
    producer = transactional(bootstrap, topic)
    for outcome in ("aborted", "committed"):
        producer.begin_transaction()
        for index in range(2):
            producer.produce(topic, f"{outcome} {index}", partition=index)
        producer.flush(WAIT_S)
        (producer.commit_transaction if outcome == "committed" else producer.abort_transaction)(WAIT_S)
    assert sorted(read(bootstrap, topic, 2, 2)) == [b"committed 0", b"committed 1"]
    assert len(read(bootstrap, topic, 4, 2, "read_uncommitted")) == 4


def commit_and_abort_by_kafka_python(bootstrap: str, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=topic)) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, str(number).encode(), partition=number % 2)
            if number % 3:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    assert sorted(read(bootstrap, topic, 4, 2)) == [b"1", b"2", b"4", b"5"]


def commit_positions_by_kafka_python(bootstrap: str, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=topic)) as producer:
        producer.init_transactions()
        for offset, commits in ((5, True), (7, False)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({PythonTopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}, topic)
            (producer.commit_transaction if commits else producer.abort_transaction)()
    assert committed_offsets(bootstrap, topic)[0] == 5


def committed_offsets(bootstrap: str, topic: str) -> list[int]:
    """Of the group that has the topic's name, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    try:
        return [each.offset for each in consumer.committed([TopicPartition(topic, index) for index in range(2)], WAIT_S)]
    finally:
        consumer.close()
