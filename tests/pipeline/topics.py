"""Topics for the pipeline's tests, made and filled through librdkafka."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.polling import eventually

DAY_MS = 86_400_000
FIRST_DAY_MS = 20_600 * DAY_MS
"""2026-05-27, midnight in UTC."""


@dataclass(frozen=True)
class Record:
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = FIRST_DAY_MS
    headers: tuple[tuple[str, bytes], ...] = ()


def make_topic(bootstrap: str, name: str, partitions: int = 2, config: Mapping[str, str] | None = None) -> None:
    """With the cluster's replication factor, and without retention unless `config` has one: the records' timestamps are old."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, config={"retention.ms": "-1", **(config or {})})])[name].result(60)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(60)


def make_topic_again(bootstrap: str, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """After `delete_topic`: brokers may know the old topic for a moment."""

    def made() -> bool:
        try:
            make_topic(bootstrap, name, partitions, config)
        except KafkaException:
            return False
        return True

    eventually(made, within_s=60)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[Record],
    *,
    transactional_id: str | None = None,
    abort: bool = False,
    batch_records_max: int = 10_000,
) -> None:
    """Returns when all are acknowledged; with a transactional id, in one transaction. Raises AssertionError if one is refused."""
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "batch.num.messages": batch_records_max,
    }
    producer = Producer(settings | ({"transactional.id": transactional_id} if transactional_id else {}))
    if transactional_id:
        producer.init_transactions(60)
        producer.begin_transaction()
    for each in records:
        headers = list(each.headers)
        producer.produce(
            topic, each.value, each.key, each.partition, timestamp=each.timestamp_ms, headers=headers, on_delivery=delivered
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not refused, refused[0]
    if transactional_id:
        (producer.abort_transaction if abort else producer.commit_transaction)(60)


def numbered(count: int, *, partitions: int = 2, first: int = 0, days: int = 2) -> list[Record]:
    """Records with distinct keys and values, dealt out to partitions and days, each with a trace context."""
    return [
        Record(
            number % partitions,
            b"key-%d" % number,
            b'{"number": %d, "text": "value %d"}' % (number, number),
            FIRST_DAY_MS + (number // partitions % days) * DAY_MS + number,
            (("traceparent", b"00-%032x-%016x-01" % (number + 1, number + 1)), ("empty", b"")),
        )
        for number in range(first, first + count)
    ]
