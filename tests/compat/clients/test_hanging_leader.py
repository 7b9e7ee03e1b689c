"""A leader that is stopped keeps its connections: only the image tells its gateways that another one leads."""

import signal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import rounds

WAIT_S = 60.0


def leader_of(admin: Admin, topic: str) -> int:
    return int(admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].leader)


def test_producers_and_consumers_go_on_and_nothing_is_lost_or_there_twice(three: LocalCluster, topic: str) -> None:
    admin = Admin(three.bootstrap)
    admin.create(topic, replicas=3)
    producer = Producer({"bootstrap.servers": three.bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    delivered: list[int] = []
    failed: list[KafkaError] = []
    read: list[int] = []
    sent = 0

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(int(message.value()))
        else:
            failed.append(error)

    def go_on(what: str, count: int) -> None:
        """Works until so many more records were delivered and read."""
        nonlocal sent
        goal = len(delivered) + count
        for _ in rounds(what, within_s=WAIT_S):
            if sent < goal + 1_000:
                producer.produce(topic, b"%d" % sent, on_delivery=report)
                sent += 1
            producer.poll(0)
            for message in consumer.consume(num_messages=1_000, timeout=0.002):
                assert message.error() is None, message.error()
                read.append(int(message.value()))
            if len(delivered) >= goal and len(read) >= goal:
                return

    go_on("before", 500)
    silent = leader_of(admin, topic)
    three.kill(f"storage-{silent}", signal.SIGSTOP)
    try:
        go_on("while it is silent", 500)
        assert leader_of(admin, topic) != silent
    finally:
        three.kill(f"storage-{silent}", signal.SIGCONT)
    go_on("when it is back", 500)
    assert producer.flush(WAIT_S) == 0
    for _ in rounds("the rest", within_s=WAIT_S):
        read += [int(message.value()) for message in consumer.consume(num_messages=1_000, timeout=0.1)]
        if len(read) >= sent:
            break
    assert not failed
    assert delivered == read == list(range(sent)), "in order, and each once"
    consumer.close()
    admin.close()
