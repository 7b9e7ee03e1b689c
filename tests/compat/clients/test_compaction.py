"""Compacted topics as clients see them: of every key the latest, whoever reads or is killed meanwhile, and Kafka's tools agree.

The cleaner runs in a process of its own here, as it does in production.
"""

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_kcat, run_tools
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually, rounds

KEYS = 800
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "40000",
    "file.delete.delay.ms": "100",
    "delete.retention.ms": "600000",
}
COMPLAINTS = re.compile(r"mismatch|non-consecutive|out of order|corrupt|exception|isvalid: false|fail|error", re.IGNORECASE)
Record = tuple[int, bytes, bytes | None]


@pytest.fixture(scope="module")
def compacting() -> Iterator[LocalCluster]:
    settings = "log.cleaner.backoff.ms=50,log.cleaner.io.max.bytes.per.second=4000000"
    with LocalCluster(environment_of={"storage-1": {"PENSTOCK_BROKER_CONFIGS": settings}}) as running:
        yield running


@pytest.fixture
def topic(compacting: LocalCluster, request: pytest.FixtureRequest) -> str:
    compacting.up()
    name = str(request.node.name).replace("test_", "")[:80].strip("_")
    admin = Admin(compacting.bootstrap)
    admin.create(name, config=COMPACTED)
    admin.close()
    return name


class Writer:
    """Writes generations of keys, one batch for a few records, and knows what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 20, "linger.ms": 5, **options})
        self.acknowledged: list[Record] = []
        self._generation = 0

    def generation(self) -> None:
        """Every tenth key is deleted by it, another tenth each time."""
        self._generation += 1
        for key in range(KEYS):
            deleted = key % 10 == self._generation % 10
            self._write(b"key-%d" % key, None if deleted else b"%d of generation %d " % (key, self._generation) + b"x" * 30)
        self._flush()

    def padding(self) -> None:
        """Keys of its own: what came before is no longer in the active segment."""
        for number in range(600):
            self._write(b"padding-%d-%d" % (self._generation, number), os.urandom(100).hex().encode())
        self._flush()

    def _write(self, key: bytes, value: bytes | None) -> None:
        def delivered(error: object, message: Any) -> None:
            assert error is None
            self.acknowledged.append((message.offset(), key, value))

        self._producer.produce(self._topic, value, key, on_delivery=delivered)
        self._producer.poll(0)

    def _flush(self) -> None:
        assert self._producer.flush(60) == 0

    def expected(self, cleaned_to: int) -> list[Record]:
        """The records that compaction up to there leaves."""
        latest = {key: offset for offset, key, _ in sorted(self.acknowledged) if offset < cleaned_to}
        return sorted(record for record in self.acknowledged if record[0] >= cleaned_to or latest[record[1]] == record[0])


def cleaner(cluster: LocalCluster) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(cluster.admin("storage-1", "/debug/cleaner"))
    return page


def cleaned_to(cluster: LocalCluster, topic: str) -> int:
    return int(cleaner(cluster)["cleaned_offsets"].get(f"{topic}-0", 0))


def wait_until_cleaned(cluster: LocalCluster, topic: str, offset: int) -> int:
    """Returns up to where it is, when there is no more to do."""

    def done() -> int:
        page = cleaner(cluster)
        cleaned = int(page["cleaned_offsets"].get(f"{topic}-0", 0))
        busy = [run for run in page["running"] if run["partition"] == f"{topic}-0"]
        return cleaned if cleaned >= offset and not busy and cleaned == cleaned_to(cluster, topic) else 0

    return eventually(done, 60)


def read_all(bootstrap: str, topic: str, end: int) -> list[Record]:
    """All records up to the offset before `end`, which must not be in a gap, by a consumer from the beginning."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Record] = []
    for _ in rounds("reading all"):
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.append((message.offset() or 0, message.key() or b"", message.value()))
        if found and found[-1][0] >= end - 1:
            break
    consumer.close()
    return found


def partition_directory(cluster: LocalCluster, topic: str) -> Path:
    (found,) = cluster.data_directory("storage-1").rglob(f"{topic}-0")
    return found


def test_a_consumer_finds_exactly_the_latest_of_each_key(compacting: LocalCluster, topic: str) -> None:
    writer = Writer(compacting.bootstrap, topic)
    for _ in range(3):
        writer.generation()
    written = len(writer.acknowledged)
    writer.padding()
    cleaned = wait_until_cleaned(compacting, topic, written)
    expected = writer.expected(cleaned)
    assert len(expected) < written
    assert read_all(compacting.bootstrap, topic, len(writer.acknowledged)) == expected
    said = run_kcat("-C", "-b", compacting.bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-Z", "-f", "%o %k %s\\n").text
    lines = [f"{offset} {key.decode()} {value.decode() if value is not None else 'NULL'}" for offset, key, value in expected]
    assert said.splitlines() == lines
    compacting.restart("storage-1")
    assert read_all(compacting.bootstrap, topic, len(writer.acknowledged)) == expected


def test_kafkas_tools_are_content_with_what_is_left(compacting: LocalCluster, topic: str) -> None:
    writer = Writer(compacting.bootstrap, topic, **{"enable.idempotence": True, "compression.type": "lz4"})
    for _ in range(3):
        writer.generation()
    written = len(writer.acknowledged)
    writer.padding()
    expected = writer.expected(wait_until_cleaned(compacting, topic, written))
    compacting.kill("storage-1", 15)
    directory = partition_directory(compacting, topic)
    files = ",".join(str(path) for path in sorted(directory.iterdir()) if path.suffix in (".log", ".index", ".timeindex"))
    asked = (("--index-sanity-check",), ("--verify-index-only",), ("--deep-iteration",), ("--deep-iteration", "--print-data-log"))
    *checked, printed = run_tools(*(("kafka-dump-log", "--files", files, *flags) for flags in asked))
    for done in checked:
        assert not COMPLAINTS.search(done.text + done.stderr.decode())
    dumped = [int(line.split("offset: ")[1].split()[0]) for line in printed.text.splitlines() if line.startswith("| offset")]
    assert dumped == [offset for offset, _, _ in expected]
    compacting.up()
    assert read_all(compacting.bootstrap, topic, len(writer.acknowledged)) == expected


class Follower(threading.Thread):
    """Reads from the beginning to the end, again and again, while the log is compacted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._servers, self._topic = bootstrap, topic
        self._stopped = threading.Event()
        self.passes = 0
        self.seen: dict[int, tuple[bytes, bytes | None]] = {}
        self.problems: list[str] = []

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        while not self._stopped.is_set():
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            last, at_end = -1, False
            while not at_end and not self._stopped.is_set():
                for message in consumer.consume(500, 0.2):
                    error = message.error()
                    if error is not None:
                        if error.code() == KafkaError._PARTITION_EOF:
                            at_end = True
                        else:
                            self.problems.append(str(error))
                        continue
                    offset, record = message.offset() or 0, (message.key() or b"", message.value())
                    if offset <= last:
                        self.problems.append(f"{offset} after {last}")
                    if self.seen.setdefault(offset, record) != record:
                        self.problems.append(f"{offset}: {self.seen[offset]}, then {record}")
                    last = offset
            self.passes += at_end
        consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)


def test_readers_notice_nothing_while_a_log_is_compacted(compacting: LocalCluster, topic: str) -> None:
    writer = Writer(compacting.bootstrap, topic)
    writer.generation()
    follower = Follower(compacting.bootstrap, topic)
    follower.start()
    try:
        for _ in range(6):
            writer.generation()
            written = len(writer.acknowledged)
            writer.padding()
            wait_until_cleaned(compacting, topic, written)
        passes = follower.passes
        eventually(lambda: follower.passes >= passes + 2, 30)
    finally:
        follower.stop()
    assert follower.problems == []
    known: Mapping[int, Any] = {offset: (key, value) for offset, key, value in writer.acknowledged}
    assert all(known[offset] == record for offset, record in follower.seen.items())
    expected = writer.expected(cleaned_to(compacting, topic))
    assert read_all(compacting.bootstrap, topic, len(writer.acknowledged)) == expected


def test_nothing_is_lost_when_the_node_is_killed_while_it_compacts(compacting: LocalCluster, topic: str) -> None:
    """SIGKILL, again and again: the child dies with its parent, and what it left is swept or ended at the next start."""
    writer = Writer(compacting.bootstrap, topic, **{"enable.idempotence": True})
    for _ in range(5):
        writer.generation()
        written = len(writer.acknowledged)
        writer.padding()
        eventually(lambda: cleaner(compacting)["running"], 30)
        compacting.restart("storage-1", 9)
        found = read_all(compacting.bootstrap, topic, len(writer.acknowledged))
        latest = {key: (offset, value) for offset, key, value in writer.acknowledged}
        assert {key: (offset, value) for offset, key, value in found} == latest
        assert set(found) <= set(writer.acknowledged)
    expected = writer.expected(wait_until_cleaned(compacting, topic, written))
    assert read_all(compacting.bootstrap, topic, len(writer.acknowledged)) == expected
    left = [path.name for path in partition_directory(compacting, topic).iterdir() if path.suffix in (".cleaned", ".swap")]
    assert left == []


def test_a_key_that_is_no_longer_written_is_found_after_many_passes(compacting: LocalCluster, topic: str) -> None:
    writer = Writer(compacting.bootstrap, topic)
    writer.padding()
    for _ in range(4):
        writer.generation()
        written = len(writer.acknowledged)
        writer.padding()
        wait_until_cleaned(compacting, topic, written)
    found = {key for _, key, _ in read_all(compacting.bootstrap, topic, len(writer.acknowledged))}
    assert found == {key for _, key, _ in writer.acknowledged}
