"""Storage nodes are restarted one after the other, by SIGTERM, under load."""

import json
import signal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import rounds

WAIT_S = 60.0
PARTITIONS = 3


def test_every_delivery_succeeds_and_no_poll_fails(three: LocalCluster, topic: str) -> None:
    admin = Admin(three.bootstrap)
    admin.create(topic, partitions=PARTITIONS, replicas=3)
    failed: list[KafkaError] = []
    retried: list[int] = []
    delivered: list[int] = []
    read: list[int] = []
    sent = 0

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(int(message.value()))
        else:
            failed.append(error)

    def count_retries(statistics: str) -> None:
        retried.append(sum(broker["txretries"] for broker in json.loads(statistics)["brokers"].values()))

    settings = {"enable.idempotence": True, "linger.ms": 2, "log_level": 0, "statistics.interval.ms": 200}
    producer = Producer({"bootstrap.servers": three.bootstrap, **settings, "stats_cb": count_retries})
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])

    def go_on(what: str, count: int) -> None:
        nonlocal sent
        goal = len(delivered) + count
        for _ in rounds(what, within_s=WAIT_S):
            if sent < goal + 200:
                producer.produce(topic, b"%d" % sent, partition=sent % PARTITIONS, on_delivery=report)
                sent += 1
            producer.poll(0)
            for message in consumer.consume(num_messages=1_000, timeout=0.002):
                assert message.error() is None, message.error()
                read.append(int(message.value()))
            if min(len(delivered), len(read)) >= goal:
                return

    go_on("before", 300)
    for node in (1, 2, 3):
        three.kill(f"storage-{node}", signal.SIGTERM)
        go_on(f"without storage-{node}", 300)
        three.start(f"storage-{node}")
        three.wait_ready([f"storage-{node}"])
        go_on(f"with storage-{node} again", 300)
    assert producer.flush(WAIT_S) == 0
    for _ in rounds("the rest", within_s=WAIT_S):
        read += [int(message.value()) for message in consumer.consume(num_messages=1_000, timeout=0.1)]
        if len(read) >= sent:
            break
    assert not failed
    assert sorted(read) == sorted(delivered) == list(range(sent)), "each once"
    for partition in range(PARTITIONS):
        assert [number for number in read if number % PARTITIONS == partition] == list(range(partition, sent, PARTITIONS))
    assert retried[-1] == 0, "the gateway hides it: the producer had nothing to send again"
    consumer.close()
    admin.close()
