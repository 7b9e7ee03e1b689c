"""A client in a container of the cluster's network: it produces a record and reads it back.

It is given a bootstrap address and a topic. Where it runs are only the packages that tests use, so it imports nothing of ours.
"""

import sys
import time

from confluent_kafka import Consumer, Producer

RECORD = b"from inside"
WITHIN_S = 60


def main(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, RECORD)
    if producer.flush(WITHIN_S):
        sys.exit("the record was not acknowledged")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            consumer.close()
            brokers = consumer_brokers(bootstrap)
            print(message.value().decode(), *brokers)
            return
    sys.exit("the record was not read")


def consumer_brokers(bootstrap: str) -> list[str]:
    metadata = Producer({"bootstrap.servers": bootstrap}).list_topics(timeout=WITHIN_S)
    return sorted(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
