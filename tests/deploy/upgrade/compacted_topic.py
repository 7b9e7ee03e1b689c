"""A compacted topic whose keys get new values again and again."""

from collections.abc import Iterator

from confluent_kafka import Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.topic_reader import TopicReader

TOPIC = "compacted"
KEYS, ROUNDS = 200, 5
CONFIG = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
"""Short segments, so that the cleaner has work."""
SENT_WITHIN_S = 60.0


class CompactedTopic:
    def __init__(self, bootstrap: str, admin: Admin) -> None:
        self._bootstrap = bootstrap
        self._latest: dict[str, str] = {}
        self._rounds = 0
        admin.create(TOPIC, 1, CONFIG, replicas=3)

    def write(self) -> None:
        """New values of all keys, some times over."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        for key, value in self._values():
            self._latest[key] = value
            producer.produce(TOPIC, value, key, partition=0)
        assert producer.flush(SENT_WITHIN_S) == 0

    def check(self) -> None:
        """Each key has its latest value, and no older one comes after it."""
        with TopicReader(self._bootstrap, TOPIC, 1) as reader:
            (records,) = reader.read_to_end()
        assert {key: value for key, value in records if key is not None} == self._latest

    def _values(self) -> Iterator[tuple[str, str]]:
        for _ in range(ROUNDS):
            self._rounds += 1
            yield from ((f"key-{key}", f"{self._rounds} of {key}") for key in range(KEYS))
