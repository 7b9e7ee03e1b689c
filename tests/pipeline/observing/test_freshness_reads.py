"""The age of the oldest unread record of each partition, and what it costs to ask for it."""

import json
import random

import pytest
from confluent_kafka import Consumer, TopicPartition

from services.pipeline.observing import group
from services.pipeline.observing.group import ASKED_TOGETHER, FETCH_BYTES, StreamGroup
from services.pipeline.spark.cluster import ClusterSettings
from tests.pipeline.topics import FIRST_DAY_MS, Record, make_topic, produce
from tests.support.polling import eventually

PARTITIONS, RECORDS, BATCH_RECORDS, RECORD_BYTES = 4, 200, 10, 10_000
STATISTICS_MS = 50


def test_asking_for_the_age_of_a_backlog_does_not_read_it(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[int] = []
    made: list[Consumer] = []

    class Counted(Consumer):
        def __init__(self, config: dict[str, object]) -> None:
            counting = {
                "statistics.interval.ms": STATISTICS_MS,
                "stats_cb": lambda text: received.append(json.loads(text)["rx_bytes"]),
            }
            super().__init__(config | counting)
            made.append(self)

    monkeypatch.setattr(group, "Consumer", Counted)
    make_topic(bootstrap, topic, PARTITIONS)
    randomness = random.Random(1)
    places = [(partition, number) for number in range(RECORDS) for partition in range(PARTITIONS)]
    backlog = [Record(at, b"k", randomness.randbytes(RECORD_BYTES), FIRST_DAY_MS + n) for at, n in places]
    produce(bootstrap, topic, backlog, batch_records_max=BATCH_RECORDS)
    asked = StreamGroup(ClusterSettings(bootstrap), "ages")
    try:
        wanted = {(topic, partition): partition + 1 for partition in range(PARTITIONS)}
        for _ in range(2):
            assert asked.timestamps(wanted) == {place: FIRST_DAY_MS + offset for place, offset in wanted.items()}
        before = len(received)
        eventually(lambda: made[0].poll(STATISTICS_MS / 1000) is None and len(received) >= before + 2, 30)
    finally:
        asked.close()
    batches = PARTITIONS * max(FETCH_BYTES, BATCH_RECORDS * RECORD_BYTES)
    assert received[-1] < 2 * 2 * batches < PARTITIONS * RECORDS * RECORD_BYTES / 4


def test_many_partitions_are_asked_together(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, a topic of many partitions took longer than a question may."""
    assigned: list[int] = []

    class Counted(Consumer):
        def assign(self, partitions: list[TopicPartition]) -> None:
            assigned.append(len(partitions))
            super().assign(partitions)

    monkeypatch.setattr(group, "Consumer", Counted)
    count = ASKED_TOGETHER + 20
    make_topic(bootstrap, topic, count)
    produce(bootstrap, topic, [Record(partition, b"k", b"v", FIRST_DAY_MS + partition) for partition in range(count - 1)])
    asked = StreamGroup(ClusterSettings(bootstrap), "ages")
    try:
        answer = asked.timestamps({(topic, partition): 0 for partition in range(count)})
    finally:
        asked.close()
    assert answer == {(topic, partition): FIRST_DAY_MS + partition for partition in range(count - 1)}, "the last one is empty"
    assert assigned == [ASKED_TOGETHER, 20]
