"""SIGKILL in the middle of a produce run: nothing acknowledged is missing afterwards, and clients continue by themselves."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.placement import elected
from tests.system.faults.produce_run import ProduceRun, Tail

PARTITIONS = 4


@pytest.mark.parametrize("victim", ["storage-1", "controller", "gateway-1", "gateway-2", "etcd"])
def test_idempotent_producers_lose_nothing_and_repeat_nothing_when_a_process_is_killed(
    healed: LocalCluster, topic: str, victim: str
) -> None:
    Admin(healed.bootstrap).create(topic, PARTITIONS)
    name = elected(healed) if victim == "controller" else victim
    with (
        ProduceRun(healed.bootstrap, topic, partitions=PARTITIONS) as run,
        Tail(healed.bootstrap, topic, partitions=PARTITIONS) as tail,
    ):
        run.advance()
        for _ in range(2):
            healed.kill(name)
            healed.start(name)
            run.advance()
        run.finish()
        tail.catch_up(run)
    run.check(healed.bootstrap)


def test_a_plain_producer_loses_nothing_when_its_storage_node_is_killed(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic, 2)
    with ProduceRun(healed.bootstrap, topic, partitions=2, idempotent=False, retries=1_000_000) as run:
        run.advance()
        healed.restart("storage-1", 9)
        run.advance()
        healed.restart("storage-2", 9)
        run.advance()
        run.finish()
    run.check(healed.bootstrap)


def test_a_client_whose_gateway_stays_down_goes_on_through_the_other(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic, PARTITIONS)
    with (
        ProduceRun(healed.bootstrap, topic, partitions=PARTITIONS) as run,
        Tail(healed.bootstrap, topic, partitions=PARTITIONS) as tail,
    ):
        run.advance()
        healed.kill("gateway-1")
        run.advance()
        run.finish()
        tail.catch_up(run)
    run.check(healed.bootstrap)


def test_everything_killed_at_once_comes_back_with_everything_acknowledged(healed: LocalCluster, topic: str) -> None:
    Admin(healed.bootstrap).create(topic, PARTITIONS)
    with ProduceRun(healed.bootstrap, topic, partitions=PARTITIONS) as run:
        run.advance()
        for name in healed.names:
            healed.kill(name)
        healed.up()
        run.advance()
        run.finish()
    run.check(healed.bootstrap)


@pytest.mark.parametrize("repeat", range(3))
def test_deleted_records_stay_deleted_when_the_node_is_killed_with_its_answer_on_the_way(
    healed: LocalCluster, topic: str, repeat: int
) -> None:
    admin = Admin(healed.bootstrap)
    admin.create(topic, 1)
    producer = Producer({"bootstrap.servers": healed.bootstrap})
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0
    where = TopicPartition(topic, 0)
    leader = admin.client.list_topics(topic).topics[topic].partitions[0].leader
    (done,) = admin.client.delete_records([TopicPartition(topic, 0, 4 + repeat)]).values()
    assert done.result().low_watermark == 4 + repeat
    healed.restart(f"storage-{leader}", 9)
    assert eventually(lambda: _watermarks(healed.bootstrap, where)) == (4 + repeat, 10)


def _watermarks(bootstrap: str, where: TopicPartition) -> tuple[int, int] | None:
    """By a new client: one of librdkafka 2.16 that was once told of a partition without a leader, as right after a restart, says
    UNKNOWN_PARTITION of it for minutes, and asks nobody. So it does with Apache Kafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        return consumer.get_watermark_offsets(where, timeout=60, cached=False)
    except KafkaException as error:
        print(f"watermarks of {where}: {error}")  # shown if it fails
        return None
    finally:
        consumer.close()
