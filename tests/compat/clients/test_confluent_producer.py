"""librdkafka's producer: every acks, order, idempotence, delivery reports, refusals."""

import collections

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.support.polling import rounds

FLUSH_S = 180.0


class Deliveries:
    """The delivery reports of a producer."""

    def __init__(self) -> None:
        self.delivered: list[Message] = []
        self.failed: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_of_every_acks_setting_are_stored_in_order(bootstrap: str, admin: Admin, topic: str, acks: str) -> None:
    admin.create(topic)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks})
    deliveries = Deliveries()
    for number in range(20_000):
        producer.produce(topic, str(number).encode(), on_delivery=deliveries)
        producer.poll(0)
    assert producer.flush(FLUSH_S) == 0
    assert not deliveries.failed
    assert [int(message.value()) for message in consume(bootstrap, topic, 20_000)] == list(range(20_000))


def test_delivery_reports_carry_the_offset_at_which_the_record_is_read(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    deliveries = Deliveries()
    for number in range(3_000):
        producer.produce(topic, str(number).encode(), key=str(number % 50).encode(), on_delivery=deliveries)
    assert producer.flush(FLUSH_S) == 0
    reported = collections.defaultdict(dict)
    for message in deliveries.delivered:
        reported[message.partition()][message.offset()] = (message.key(), message.value(), message.timestamp()[1])
    assert len(reported) == 3
    for partition, by_offset in reported.items():
        found = consume(bootstrap, topic, len(by_offset), partition=partition)
        assert {m.offset(): (m.key(), m.value(), m.timestamp()[1]) for m in found} == by_offset
        assert [m.offset() for m in found] == list(range(len(by_offset)))


def test_an_idempotent_producer_with_tiny_batches_in_flight_keeps_order_and_writes_once(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    admin.create(topic)
    settings = {"enable.idempotence": True, "max.in.flight": 5, "batch.num.messages": 10, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    deliveries = Deliveries()
    for number in range(2_000):
        producer.produce(topic, str(number).encode(), on_delivery=deliveries)
        producer.poll(0)
    assert producer.flush(FLUSH_S) == 0
    assert [message.offset() for message in deliveries.delivered] == list(range(2_000))
    assert [int(message.value()) for message in consume(bootstrap, topic, 2_000)] == list(range(2_000))


def test_several_producers_at_once_lose_and_repeat_nothing(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=2)
    producers = [Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True}) for _ in range(4)]
    deliveries = Deliveries()
    for number in range(8_000):
        producer = producers[number % 4]
        producer.produce(topic, str(number).encode(), partition=number % 2, on_delivery=deliveries)
        producer.poll(0)
    for producer in producers:
        assert producer.flush(FLUSH_S) == 0
    assert not deliveries.failed
    found = [int(message.value()) for partition in (0, 1) for message in consume(bootstrap, topic, 4_000, partition=partition)]
    assert sorted(found) == list(range(8_000))


def test_a_batch_above_the_topics_limit_is_refused_and_the_next_one_is_not(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, config={"max.message.bytes": "10000"})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    deliveries = Deliveries()
    producer.produce(topic, b"x" * 20_000, on_delivery=deliveries)
    assert producer.flush(FLUSH_S) == 0
    assert [error.code() for error in deliveries.failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    producer.produce(topic, b"small", on_delivery=deliveries)
    assert producer.flush(FLUSH_S) == 0
    assert [message.offset() for message in deliveries.delivered] == [0]


def test_a_higher_limit_takes_effect_on_a_running_producer(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, config={"max.message.bytes": "10000"})
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 3_000_000, "linger.ms": 0})
    admin.set_config(ResourceType.TOPIC, topic, "max.message.bytes", "2500000")
    for _ in rounds("a batch of 2 MB is accepted"):
        deliveries = Deliveries()
        producer.produce(topic, b"x" * 2_000_000, on_delivery=deliveries)
        assert producer.flush(FLUSH_S) == 0
        if deliveries.delivered:
            break
    assert len(consume(bootstrap, topic, 1)[0].value()) == 2_000_000
