"""What a client told, beside the log: what was lost, what is there twice, what was passed over."""

from collections import Counter

from confluent_kafka import Consumer, TopicPartition

from tests.bench.client_gaps.streams import Stream

READ_S = 60.0


def compared(producer: Stream, stored: dict[int, int]) -> dict[str, int]:
    """A producer beside the log of its topic."""
    copies = Counter(stored.values())
    return {
        "acknowledged": len(producer.sequences),
        "lost": len(set(producer.sequences) - copies.keys()),
        "duplicated": copies.total() - len(copies),
        "failed": len(producer.failures),
    }


def compared_with_feed(consumer: Stream, feed: dict[int, int]) -> dict[str, int]:
    """A consumer beside the log that it read, from its first record on."""
    received = Counter(consumer.offsets)
    first = min(received, default=0)
    return {
        "received": len(received),
        "passed_over": len([offset for offset in feed if offset > first and offset not in received]),
        "received_again": received.total() - len(received),
    }


def read_all(bootstrap: str, topic: str) -> dict[int, int]:
    """The sequence number at each offset of the partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "log", "enable.auto.commit": False})
    where = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(where, timeout=READ_S)
    consumer.assign([where])
    found: dict[int, int] = {}
    last = -1
    while last < end - 1:
        message = consumer.poll(READ_S)
        assert message is not None, f"{topic} ends at {end}, and nothing comes after {last}"
        if message.error() is None:
            last = message.offset() or 0
            found[last] = int(message.value() or b"")
    consumer.close()
    return found
