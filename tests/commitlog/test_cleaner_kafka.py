"""Kafka 4.2.1 as judge of compaction: its tools and its broker read what we cleaned, and its cleaner keeps the same."""

import random
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import NewTopic

from libs.commitlog.producers.transaction_index import ENTRY
from libs.commitlog.segments.index import OFFSET_ENTRY
from libs.wire.record_batches.batches import DELETE_HORIZON
from libs.wire.record_batches.records import Record
from tests.commitlog import kafka_lives
from tests.commitlog.compacted import CompactedPartition, Kept
from tests.commitlog.kafka_files import complaints, dump, give, watermarks
from tests.compat.kafka.broker import KafkaBroker

PASSES = 3
CLEANED_WITHIN_S = 60.0
LAYOUT = {"index.interval.bytes": "200", "segment.bytes": str(1 << 30)}
CLEANED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0", **LAYOUT}


def written(path: Path) -> CompactedPartition:
    """Repeating keys in batches of all codecs, from known producers, in transactions and outside, with tombstones and gaps."""
    path.mkdir(parents=True)
    partition = CompactedPartition(path)
    partition.now_ms = time.time_ns() // 1_000_000 - 60_000
    partition.leader_epoch = 0
    noise = random.Random(36)
    for segment in range(4):
        for i in range(60):
            partition.now_ms += 1
            records = [
                Record(
                    noise.choice([b"key-%d" % noise.randrange(60 + 20 * segment), b"long-%d" % noise.randrange(9) * 30]),
                    noise.choice([None, b"", b"v" * noise.randrange(90), b"%d" % i]),
                    partition.now_ms - noise.randrange(50),
                    noise.choice([(), (("name", b"x"),)]),
                )
                for _ in range(noise.randrange(1, 9))
            ]
            fields: dict[str, Any] = {"codec": i % 5}
            if i % 4 == 1:
                fields["producer_id"] = noise.randrange(4)
            elif i % 4 == 2:
                fields |= {"producer_id": noise.randrange(10, 16), "transactional": True}
            elif i % 7 == 0:
                fields["log_append_time_ms"] = partition.now_ms
            partition.put(*records, **fields)
            if i % 5 == 4:
                producer_id = noise.randrange(10, 16)
                if producer_id in partition.open:
                    partition.end_transaction(producer_id, aborts=noise.random() < 0.5)
            if i % 20 == 19:
                partition.skip(noise.randrange(5))
        for producer_id in list(partition.open):
            partition.end_transaction(producer_id, aborts=segment % 2 == 0)
        partition.roll()
    partition.put_values((b"active", b"v"))
    return partition


def compacted(source: Path, target: Path, partition: CompactedPartition) -> CompactedPartition:
    """The same partition after one more pass over all of it."""
    shutil.copytree(source, target)
    after = CompactedPartition.__new__(CompactedPartition)
    after.__dict__ |= partition.__dict__
    after.path, after.bases = target, list(partition.bases)
    after.now_ms = partition.now_ms + 10
    after.clean(delete_retention_ms=0, first_dirty_offset=0, segment_bytes=1 << 30, segment_index_bytes=10 << 20)
    return after


class Judged(kafka_lives.Judged):
    """After its kill the broker finds the files that we wrote and cleaned. It reads every batch, and learns of producers and
    aborted transactions."""

    def __init__(self, root: Path) -> None:
        root /= "cleaner"
        self.ours = [written(root / "ours-0")]
        """Our partitions after 0, 1, 2 … passes of our cleaner."""
        for number in range(1, PASSES + 1):
            self.ours.append(compacted(self.ours[-1].path, root / f"ours-{number}", self.ours[-1]))
        self.theirs: list[list[Path]] = []
        """The log files that Kafka's cleaner made of each partition."""
        self.served: list[dict[str, list[Kept]]] = []
        """The records that a broker served of each partition, by isolation level."""
        self._cleaned = [f"cleaned-{n}" for n in range(PASSES)]
        self._served = [f"served-{n}" for n in range(PASSES + 1)]

    def topics(self) -> list[NewTopic]:
        cleaned = [NewTopic(name, 1, 1, config=CLEANED) for name in self._cleaned]
        return cleaned + [NewTopic(name, 1, 1, config=LAYOUT) for name in self._served]

    def killed(self, data: Path) -> None:
        for name in self._cleaned + self._served:
            give(self.ours[int(name[-1])].path, data / f"{name}-0")

    def read_recovered(self, broker: KafkaBroker) -> None:
        wait_until_cleaned(broker, dict.fromkeys(self._cleaned, self.ours[0].bases[-1]))
        levels = ("read_uncommitted", "read_committed")
        self.served = [{level: consume(broker, name, level) for level in levels} for name in self._served]
        self.theirs = [sorted((broker.log_directory / f"{name}-0").glob("*.log")) for name in self._cleaned]


@pytest.fixture
def judged(kafka_lives: dict[str, Judged]) -> Judged:
    return kafka_lives[__name__]


def wait_until_cleaned(broker: KafkaBroker, ends: dict[str, int]) -> None:
    checkpoint = broker.log_directory / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + CLEANED_WITHIN_S
    cleaned_to: dict[str, int] = {}
    while any(cleaned_to.get(name, 0) < end for name, end in ends.items()):
        assert time.monotonic() < deadline, f"{cleaned_to}\n{broker.log()[-5000:]}"
        time.sleep(0.1)
        lines = checkpoint.read_text(encoding="utf-8").splitlines() if checkpoint.exists() else []
        cleaned_to = {fields[0]: int(fields[2]) for line in lines[2:] if len(fields := line.split()) == 3}


def consume(broker: KafkaBroker, topic: str, isolation: str) -> list[Kept]:
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "judge", "isolation.level": isolation,
        "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True,
    })  # fmt: skip
    try:
        start, _ = watermarks(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, start)])
        records = []
        while (message := consumer.poll(30)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return records
            headers = tuple(message.headers() or ())
            records.append(Kept(message.offset(), message.key(), message.value(), message.timestamp()[1], headers))
        raise AssertionError(f"{topic}: nothing came for 30 s after {len(records)} records")
    finally:
        consumer.close()


def read(paths: list[Path]) -> CompactedPartition:
    """Reads Kafka's files as if they were ours."""
    partition = CompactedPartition.__new__(CompactedPartition)
    partition.path = paths[0].parent
    partition.bases = [int(path.stem) for path in paths]
    return partition


@pytest.mark.parametrize("number", range(PASSES))
def test_kafkas_cleaner_keeps_the_same_records(judged: Judged, number: int) -> None:
    assert judged.ours[number + 1].records() == read(judged.theirs[number]).records()


@pytest.mark.parametrize("number", range(PASSES))
def test_kafkas_cleaner_leaves_the_same_batches(judged: Judged, number: int) -> None:
    """Empty ones, markers and horizons too. Their times and sizes may differ: when it ran, how it compressed."""

    def batch_fields(partition: CompactedPartition) -> list[tuple[int, ...]]:
        return [
            (
                h.base_offset,
                h.last_offset,
                h.record_count,
                h.attributes,
                h.max_timestamp,
                h.producer_id,
                h.producer_epoch,
                h.base_sequence,
                h.leader_epoch,
            )
            for h in partition.headers()
        ]

    assert batch_fields(judged.ours[number + 1]) == batch_fields(read(judged.theirs[number]))


def test_the_log_had_what_the_comparison_is_about(judged: Judged) -> None:
    once, twice = judged.ours[1].headers(), judged.ours[2].headers()
    assert len(judged.ours[0].records()) > len(judged.ours[1].records()) > len(judged.ours[2].records())
    assert any(h.record_count == 0 and not h.is_control for h in once)
    assert any(h.attributes & DELETE_HORIZON and not h.is_control for h in once)
    assert any(h.attributes & DELETE_HORIZON and h.is_control for h in twice)
    assert any(h.is_control and not h.attributes & DELETE_HORIZON for h in twice)
    assert judged.ours[2].markers() != judged.ours[3].markers()
    assert {h.codec for h in once} == set(range(5))
    assert list(judged.ours[1].path.glob("*.txnindex"))


@pytest.mark.parametrize("number", range(PASSES + 1))
def test_a_kafka_broker_serves_what_is_left(judged: Judged, number: int) -> None:
    expected = judged.ours[number].records()
    expected = [record._replace(headers=tuple((name, value or b"") for name, value in record.headers)) for record in expected]
    assert judged.served[number]["read_uncommitted"] == expected
    aborted_offsets = {
        offset
        for entry in judged.ours[0].aborted
        for batch in judged.ours[number].headers()
        if batch.producer_id == entry.producer_id and entry.first_offset <= batch.base_offset < entry.last_offset
        for offset in range(batch.base_offset, batch.last_offset + 1)
    }
    assert judged.served[number]["read_committed"] == [record for record in expected if record.offset not in aborted_offsets]


@pytest.mark.parametrize("number", range(PASSES))
def test_kafkas_cleaner_makes_the_same_indexes(judged: Judged, number: int) -> None:
    """Except for positions, since compressed batches differ in size."""
    ours, theirs = judged.ours[number + 1].path / f"{0:020d}.log", judged.theirs[number][0]
    assert content(ours.with_suffix(".timeindex")) == content(theirs.with_suffix(".timeindex"))
    # Kafka rebuilt its .txnindex from the remaining batches. The start of a transaction may have moved; its producer and its end
    # have not.
    named = [
        [(producer_id, marker) for _, producer_id, _, marker, _ in ENTRY.iter_unpack(content(log.with_suffix(".txnindex")))]
        for log in (ours, theirs)
    ]
    assert named[0] == named[1]
    indexed = [[offset for offset, _ in OFFSET_ENTRY.iter_unpack(content(log.with_suffix(".index")))] for log in (ours, theirs)]
    assert len(indexed[0]) > 10
    assert indexed[0] == indexed[1]


def content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def test_kafkas_tools_do_not_complain_of_cleaned_files(judged: Judged) -> None:
    directories = {partition.path.name: partition.path for partition in judged.ours[1:]}
    text, files = dump(directories, (".log",), "--deep-iteration")
    assert len(files) == 2 * PASSES
    # Gaps between offsets are the effect of compaction.
    assert [line for line in complaints(text) if "non-consecutive" not in line.lower() and not line.startswith("  ")] == []
    text, files = dump(directories, (".index", ".timeindex"), "--index-sanity-check")
    assert complaints(text) == []
    assert len(files) == 2 * PASSES
    text, _ = dump(directories, (".txnindex",))
    assert complaints(text) == []
    assert len(re.findall(r"version: 0 producerId: \d+", text)) > 0


def test_kafkas_tools_find_in_our_indexes_what_they_find_in_kafkas(judged: Judged) -> None:
    """For an emptied batch the tools say that no record has its timestamp, whichever cleaner emptied it."""
    ours = {partition.path.name: partition.path for partition in judged.ours[1:]}
    theirs = {paths[0].parent.name: paths[0].parent for paths in judged.theirs}
    batch_fields = [
        [line.strip() for line in complaints(dump(directories, (".index", ".timeindex"), "--verify-index-only")[0])]
        for directories in (ours, theirs)
    ]
    times = [sorted(line for line in lines if line.startswith("Index timestamp")) for lines in batch_fields]
    assert times[0] == times[1]
    assert all(line.endswith("log timestamp: -1") for line in times[0])
    assert all(line.startswith(("Index timestamp", "Found timestamp mismatch")) for line in batch_fields[0])
