"""What a cluster with a data folder keeps: after a stop, and after a kill at any moment."""

import threading
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from penstock.testing import Cluster

from tests.dev.clients import administrator, consume, create_topic, produce, record_count, topic_config, transactional_producer
from tests.support.polling import eventually, rounds


def test_a_restart_keeps_topics_records_offsets_and_configs(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "lines", 2, retention_ms="7200000")
        produce(cluster.bootstrap_servers, "lines", [b"%d" % number for number in range(10)])
        consume(cluster.bootstrap_servers, "lines", 10)
        produce(cluster.bootstrap_servers, "lines", [b"later"])
        broker = ConfigResource(
            ConfigResource.Type.BROKER,
            "1",
            incremental_configs=[ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)],
        )
        client = administrator(cluster.bootstrap_servers)
        client.incremental_alter_configs([broker])[broker].result(30)
        cluster_id = client.list_topics(timeout=30).cluster_id
    with Cluster(data=tmp_path) as cluster:
        assert consume(cluster.bootstrap_servers, "lines", 1) == [b"later"]
        assert len(consume(cluster.bootstrap_servers, "lines", 11, group="others")) == 11
        assert topic_config(cluster.bootstrap_servers, "lines", "retention.ms") == "7200000"
        client = administrator(cluster.bootstrap_servers)
        assert client.describe_configs([broker])[broker].result(30)["log.cleaner.threads"].value == "2"
        assert client.list_topics(timeout=30).cluster_id == cluster_id


def test_a_restart_keeps_transactional_ids(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "payments")
        producer = transactional_producer(cluster.bootstrap_servers, "teller")
        producer.begin_transaction()
        producer.produce("payments", b"committed")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.produce("payments", b"open at the end")
        assert producer.flush(30) == 0
        cluster.kill()
        cluster.start()
        successor = transactional_producer(cluster.bootstrap_servers, "teller")  # aborts what its former life left open
        successor.begin_transaction()
        successor.produce("payments", b"of the successor")
        successor.commit_transaction()
        values = consume(cluster.bootstrap_servers, "payments", 2, isolation_level="read_committed")
        assert values == [b"committed", b"of the successor"]


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    cluster = Cluster(data=tmp_path)
    acknowledged: list[bytes] = []
    for life in range(3):
        cluster.start()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        create_topic(cluster.bootstrap_servers, f"made-in-life-{life}")
        ended = threading.Event()
        sending = threading.Thread(target=send, args=(producer, life, acknowledged, ended))
        sending.start()
        enough = len(acknowledged) + 200
        eventually(lambda enough=enough: len(acknowledged) >= enough)
        cluster.kill()
        ended.set()
        sending.join()
        producer.purge()
    with cluster:
        read = consume(cluster.bootstrap_servers, "lines", record_count(cluster.bootstrap_servers, "lines"))
        topics = administrator(cluster.bootstrap_servers).list_topics(timeout=30).topics
    assert set(acknowledged) <= set(read)
    assert {f"made-in-life-{life}" for life in range(3)} <= topics.keys()


def send(producer: Producer, life: int, acknowledged: list[bytes], ended: threading.Event) -> None:
    number = 0
    while not ended.is_set():
        value = b"%d-%d" % (life, number)
        producer.produce(
            "lines", value, on_delivery=lambda error, message: acknowledged.append(message.value()) if error is None else None
        )
        producer.poll(0.001)
        number += 1


def test_clients_get_over_kills_and_restarts(tmp_path: Path) -> None:
    """One producer and one consumer live through all of it: the cluster comes back where they know it."""
    with Cluster(data=tmp_path) as cluster:
        given = {"bootstrap.servers": cluster.bootstrap_servers, "reconnect.backoff.max.ms": 100, "log_level": 0}
        create_topic(cluster.bootstrap_servers, "lines")
        producer = Producer({**given, "enable.idempotence": True})
        consumer = Consumer({**given, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["lines"])
        again: list[Callable[[], object]] = [
            lambda: None,
            cluster.restart,
            lambda: cluster.restart(kill=True),
            lambda: (cluster.kill(), cluster.start()),
        ]
        for life, begin in enumerate(again):
            address = cluster.bootstrap_servers
            begin()
            assert cluster.bootstrap_servers == address
            producer.produce("lines", b"of life %d" % life)
            assert producer.flush(30) == 0
            assert next_value(consumer) == b"of life %d" % life
        consumer.close()


def next_value(consumer: Consumer) -> bytes:
    for _ in rounds("the next record", 30.0):
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            return message.value()
    raise AssertionError
