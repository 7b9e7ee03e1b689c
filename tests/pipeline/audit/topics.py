"""Topics for audits: plain ones, and such with transactions."""

from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource


def fill(bootstrap: str, topic: str, numbers: Iterable[int], *, partition: int = 0, keys: int = 1000, batch: int = 100) -> None:
    """Records `key-N` with value and, each third one, a header."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": batch, "linger.ms": 5, "acks": "all"})
    for number in numbers:
        headers = [("trace", b"%d" % number)] if number % 3 == 0 else None
        producer.produce(topic, b"value-%d" % number, b"key-%d" % (number % keys), partition, headers=headers)
    assert producer.flush(30) == 0


def compact(bootstrap: str, topic: str) -> None:
    """From now on the topic is compacted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("TOPIC", topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def transactions(bootstrap: str, topic: str, outcomes: str, records: int = 10) -> None:
    """One transaction for each letter: `c` is committed, `a` aborted. Each takes `records` offsets and one for its marker."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for outcome in outcomes:
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, outcome.encode(), b"key-%d" % number, 0)
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if outcome == "c" else producer.abort_transaction(30)
