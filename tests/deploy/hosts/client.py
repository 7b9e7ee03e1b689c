"""Clients on a host of their own: `create` makes the topic, `produce` writes numbers until SIGTERM, `consume` reads by a group,
`transact` commits one transaction. One JSON line for each record that is acknowledged or read: [topic, partition, number]."""

import json
import signal
import sys
import threading

from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.compat.clients.admin import Admin

PARTITIONS = 6
PAUSE_S = 0.03
WITHIN_S = 60.0
PATIENCE = {"request.timeout.ms": 5000, "socket.timeout.ms": 5000}
"""Nobody tells a client that a host is cut off. librdkafka waits for 30 and 60 s by default (docs/operate/three-hosts.md)."""


def tell(message: Message) -> None:
    print(json.dumps([message.topic(), message.partition(), int(message.value() or b"")]), flush=True)


def delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        sys.exit(f"a record was refused: {error}")
    tell(message)


def produce(bootstrap: str, topic: str) -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, **PATIENCE}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    number = 0
    while not over.wait(PAUSE_S):
        producer.produce(topic, str(number), partition=number % PARTITIONS, on_delivery=delivered)
        number += 1
        producer.poll(0)
    if left := producer.flush(WITHIN_S):
        sys.exit(f"{left} records were not acknowledged")


def consume(bootstrap: str, topic: str, count: int) -> None:
    """Reads from the start of all partitions until `count` records came, and to their ends."""
    settings = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    read, at_end = 0, set[int | None]()
    while read < count or len(at_end) < PARTITIONS:
        message = consumer.poll(WITHIN_S)
        if message is None:
            sys.exit(f"nothing came for {WITHIN_S} s after {read} records")
        if (error := message.error()) is None:
            at_end.discard(message.partition())
            read += 1
            tell(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end.add(message.partition())
        else:
            sys.exit(f"reading failed: {error}")
    consumer.commit(asynchronous=False)
    consumer.close()


def transact(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "teller"})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(topic, b"1", partition=0, on_delivery=delivered)
    producer.commit_transaction(WITHIN_S)


def main(action: str, bootstrap: str, topic: str, *counts: str) -> None:
    match action:
        case "create":
            Admin(bootstrap).create(topic, PARTITIONS)
        case "produce":
            produce(bootstrap, topic)
        case "consume":
            consume(bootstrap, topic, int(counts[0]))
        case "transact":
            transact(bootstrap, topic)
        case _:
            sys.exit(f"there is no {action}")


if __name__ == "__main__":
    main(*sys.argv[1:])
