"""What a user of librdkafka sees, client included: confluent-kafka's Producer and Consumer with their defaults.

One thread of Python makes and takes the records, which costs a good part of a core on both sides alike.
"""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.bench.cases import KIB, Case, Measured, unique
from tests.bench.client_cases import BATCH_BYTES, consumer_case, producer_case
from tests.bench.load import BenchError
from tests.bench.sides import Side

POLLED_EVERY = 1000
"""Records between two looks at delivery reports, which make room in the producer's queue."""
TAKEN_AT_ONCE = 10_000
DONE_WITHIN_S, ANSWER_WITHIN_S = 120.0, 30.0


def produce_records(producer: Producer, topic: str, value: bytes, records: int) -> None:
    """Returns when each has a delivery report. Raises BenchError if some do not come to one."""
    sent, deadline = 0, time.monotonic() + DONE_WITHIN_S
    while sent < records:
        try:
            for _ in range(min(POLLED_EVERY, records - sent)):
                producer.produce(topic, value)
                sent += 1
            producer.poll(0)
        except BufferError:  # the queue is full
            producer.poll(0.1)
        if time.monotonic() > deadline:
            raise BenchError(f"only {sent} of {records} records found room within {DONE_WITHIN_S:.0f} s")
    if left := producer.flush(DONE_WITHIN_S):
        raise BenchError(f"{left} of {records} records had no delivery report within {DONE_WITHIN_S:.0f} s")


def end_offset(side: Side, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    return int(side.admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(ANSWER_WITHIN_S).offset)


def librdkafka_producer_case(name: str, record_size: int, records: int) -> Case:
    def run(side: Side, topic: str) -> Measured:
        value = bytes(index % 251 for index in range(record_size))
        producer = Producer({"bootstrap.servers": side.bootstrap, "acks": 1, "log_level": 2})
        produce_records(producer, topic, value, 1)  # it has found the leader now
        before = end_offset(side, topic)
        started = time.perf_counter()
        produce_records(producer, topic, value, records)
        elapsed = time.perf_counter() - started
        # Reports of failures would show here: they are handed to nobody, since a callback a record is Python's time.
        if (stored := end_offset(side, topic) - before) != records:
            raise BenchError(f"{side.name} stored {stored} records of {records}")
        return Measured(records / elapsed, records)

    words = f"librdkafka's Producer, {records} records of {record_size} B, acks=1, defaults otherwise; one partition"
    return producer_case(name, words, run)


def consume_records(consumer: Consumer, records: int) -> None:
    """Raises BenchError at an error, and if none comes for a while."""
    taken = 0
    while taken < records:
        messages = consumer.consume(min(TAKEN_AT_ONCE, records - taken), ANSWER_WITHIN_S)
        if not messages:
            raise BenchError(f"{taken} of {records} records came, and no more within {ANSWER_WITHIN_S:.0f} s")
        for error in filter(None, [message.error() for message in messages]):
            raise BenchError(f"the consumer met {error}")
        taken += len(messages)


def librdkafka_consumer_case(name: str, record_size: int, records: int) -> Case:
    def run(side: Side, topic: str) -> Measured:
        settings = {"bootstrap.servers": side.bootstrap, "group.id": unique(name), "enable.auto.commit": False, "log_level": 2}
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            consume_records(consumer, 1)  # it has found the leader now
            started = time.perf_counter()
            consume_records(consumer, records)
            return Measured(records / (time.perf_counter() - started), records)
        finally:
            consumer.close()

    words = (
        f"librdkafka's Consumer, {records} records of {record_size} B in batches of {BATCH_BYTES} B, {TAKEN_AT_ONCE} taken at "
        "once, defaults otherwise"
    )
    return consumer_case(name, words, record_size, records, run)


def librdkafka_cases() -> list[Case]:
    return [
        librdkafka_producer_case("librdkafka-producer-100B", 100, 1_000_000),
        librdkafka_producer_case("librdkafka-producer-1KB", KIB, 300_000),
        librdkafka_consumer_case("librdkafka-consumer-100B", 100, 2_000_000),
        librdkafka_consumer_case("librdkafka-consumer-1KB", KIB, 400_000),
    ]
