"""What the clients of these tests do: produce some records, and read some as a group."""

from confluent_kafka import Consumer, Producer

from tests.support.polling import rounds


def produce(bootstrap: str, topic: str, *records: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for record in records:
        producer.produce(topic, record)
    assert producer.flush(60) == 0


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    """The next records of this group, which then has them behind it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    for _ in rounds(f"{count} records of {topic}"):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        if len(found) == count:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    return found
