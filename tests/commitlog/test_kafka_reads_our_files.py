"""Kafka 4.2.1 as judge: its tools and its broker read what our log wrote, and our log reads what its broker wrote."""

import random
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Finding, Findings
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.commitlog import kafka_lives
from tests.commitlog.harness import append, open_log, read_batches, searched, sync
from tests.commitlog.kafka_files import complaints, dump, give, watermarks
from tests.compat.kafka.broker import KafkaBroker

CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=500, segment_index_bytes=4800)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000


def write_batches(log: Log, batches: int) -> None:
    """Writes batches of all codecs, from three idempotent producers and from none, with timestamps that go back and forth."""
    start = log.log_end_offset
    for i in range(batches):
        offset, producer_id = log.log_end_offset, i % 4 - 1
        count = 1 + i % 3
        records = [
            Record(b"%d" % (offset + n), b"v" * (i % 7 * 30), FIRST_MS + (offset + n) * 10 - i % 2 * 55, (("h", b"x"),))
            for n in range(count)
        ]
        entry = log.producers.entries.get(producer_id)
        sequence = entry.batches[-1].last_sequence + 1 if entry is not None else 0
        idempotent = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence} if producer_id >= 0 else {}
        append(log, build_batch(records, base_offset=offset, leader_epoch=0, codec=i % len(CODECS), **idempotent))
    assert log.log_end_offset > start


def write_clean(path: Path) -> None:
    log = open_log(path, OsFileSystem(), CONFIG)
    write_batches(log, 200)
    log.close(clean=True)


def write_running(path: Path) -> None:
    log = open_log(path, OsFileSystem(), CONFIG)
    write_batches(log, 200)
    sync(log)


def write_truncated(path: Path) -> None:
    log = open_log(path, OsFileSystem(), CONFIG)
    write_batches(log, 200)
    log.truncate_to(log.log_end_offset // 2)
    write_batches(log, 30)
    log.truncate_to(log.log_end_offset - 3)
    log.close(clean=True)


def write_crashed(path: Path) -> None:
    """A crash tore the last batch and left rubbish in the indexes; the log was opened again, written to and closed."""
    log = open_log(path, OsFileSystem(), CONFIG)
    write_batches(log, 100)
    sync(log, resume_point=True)
    write_batches(log, 100)
    with open(log.active.file.path, "r+b") as file:
        file.truncate(log.active.size - 7)
    for index in path.glob("*index"):
        if int(index.name[:20]) > 100:
            index.write_bytes(b"\xff" * 24)
    again = open_log(path, OsFileSystem(), CONFIG)
    assert again.truncated_bytes > 0
    write_batches(again, 30)
    again.close(clean=True)


def write_started_late(path: Path) -> None:
    """Retention took the first segments."""
    log = open_log(path, OsFileSystem(), CONFIG)
    write_batches(log, 200)
    log.delete_before(200, log.log_end_offset)
    log.advance_start()
    sync(log, resume_point=True)
    retired = log.retire_segments()
    assert retired is not None
    retired.rename(OsFileSystem())
    log.close(clean=True)
    for path_of_old in path.glob("*.deleted"):
        path_of_old.unlink()


HISTORIES = {
    "clean": write_clean,
    "running": write_running,
    "truncated": write_truncated,
    "crashed": write_crashed,
    "started-late": write_started_late,
}


def write_histories(root: Path) -> dict[str, Path]:
    """A partition's directory for each history."""
    for name, write in HISTORIES.items():
        (root / f"{name}-0").mkdir(parents=True)
        write(root / f"{name}-0")
        assert len(list((root / f"{name}-0").glob("*.log"))) > 2
    return {name: root / f"{name}-0" for name in HISTORIES}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_histories(tmp_path_factory.mktemp("ours"))


def test_kafka_dumps_every_record_of_our_logs(ours: dict[str, Path]) -> None:
    text, files = dump(ours, (".log",), "--deep-iteration")
    assert complaints(text) == []
    sections = re.split(r"^Dumping ", text, flags=re.MULTILINE)[1:]
    assert len(sections) == len(files)
    seen = {
        section.splitlines()[0]: [int(n) for n in re.findall(r"^\| offset: (\d+) ", section, re.MULTILINE)]
        for section in sections
    }
    for directory in ours.values():
        offsets = [offset for file in sorted(seen) if file.startswith(f"{directory}/") for offset in seen[file]]
        log = open_log(shutil.copytree(directory, directory.parent / f"copy-of-{directory.name}"), config=CONFIG)
        assert offsets == list(range(log.segments[0].base_offset, log.log_end_offset))
    assert set(re.findall(r"compresscodec: (\w+)", text)) == set(CODECS)


@pytest.mark.parametrize("flag", ["--index-sanity-check", "--verify-index-only"])
def test_kafka_finds_our_indexes_sound(ours: dict[str, Path], flag: str) -> None:
    # Indexes that Kafka's own broker preallocated fail the sanity check too, until they are trimmed when the log closes or rolls.
    ours = {name: path for name, path in ours.items() if name != "running" or flag == "--verify-index-only"}
    text, files = dump(ours, (".index", ".timeindex"), flag)
    assert complaints(text) == []
    if flag == "--index-sanity-check":
        assert len(re.findall(r"(passed sanity check|index is empty)\.$", text, re.MULTILINE)) == len(files)


def test_kafka_dumps_our_producer_snapshots(ours: dict[str, Path]) -> None:
    text, files = dump(ours, (".snapshot",))
    assert complaints(text) == []
    assert text.count("Dumping ") == len(files)
    assert set(re.findall(r"producerId: (\d+)", text)) == {"0", "1", "2"}


def test_the_judge_would_complain(ours: dict[str, Path], tmp_path: Path) -> None:
    """The tools find damage that we make, so their silence has a meaning."""
    copy = shutil.copytree(ours["clean"], tmp_path / "damaged-0")
    index = sorted(path for path in copy.glob("*.index") if path.stat().st_size >= 16)[0]
    content = bytearray(index.read_bytes())
    content[3] += 1
    index.write_bytes(content)
    text, _ = dump({"damaged": copy}, (".index",), "--verify-index-only")
    assert complaints(text)
    assert {finding.path for finding in problems_of(copy)} == {str(index)}


def problems_of(path: Path) -> list[Finding]:
    """The problems that our own tool reports, except for files that Log alone does not write."""
    findings = Findings()
    verify(OsFileSystem(), str(path), findings, records=True)
    return [finding for finding in findings.entries if not finding.path.endswith("partition.metadata")]


@pytest.mark.parametrize("history", HISTORIES)
def test_our_own_judge_finds_our_files_sound(ours: dict[str, Path], history: str) -> None:
    assert problems_of(ours[history]) == []


def test_our_own_judge_finds_what_a_kafka_broker_wrote_sound(judged: "Judged") -> None:
    assert problems_of(judged.theirs) == []


# --- brokers


class Consumed(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes]] | None


def records_of(log: Log) -> list[Consumed]:
    """The records of our log for a consumer without isolation."""
    records = []
    for batch in read_batches(log, log.log_start_offset):
        if not batch.header.is_control:
            for record in iter_records(batch.view):
                headers = [(name, value or b"") for name, value in record.headers] or None
                records.append(Consumed(record.offset, record.key, record.value, record.timestamp, headers))
    return records


def consume(broker: KafkaBroker, topic: str) -> list[Consumed]:
    """Everything up to the end."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "judge", "isolation.level": "read_uncommitted",
        "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True,
    })  # fmt: skip
    try:
        start, end = watermarks(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, start)])
        records = []
        while (message := consumer.poll(30)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                assert message.offset() == end
                return records
            records.append(Consumed(message.offset(), message.key(), message.value(), message.timestamp()[1], message.headers()))
        raise AssertionError(f"{topic}: nothing came for 30 s after {len(records)} records")
    finally:
        consumer.close()


def produce(broker: KafkaBroker, topic: str) -> None:
    """Produces records of all codecs, some idempotent, some in transactions that commit or abort."""
    noise = random.Random(4)
    for codec in CODECS:
        producer = Producer({
            "bootstrap.servers": broker.bootstrap, "compression.codec": codec, "enable.idempotence": codec != "none",
            "linger.ms": 5, "batch.num.messages": 100,
        })  # fmt: skip
        for i in range(600):
            producer.produce(topic, partition=0, key=f"{codec}-{i}", value=noise.randbytes(1000), headers=[("codec", codec)])
        assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "judge"})
    producer.init_transactions(60)
    for ends in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for i in range(20):
            producer.produce(topic, partition=0, key=f"{i}", value="in a transaction")
        ends(60)


KAFKA_TOPIC = "written-by-kafka"


class Judged(kafka_lives.Judged):
    """The broker wrote a topic of its own, and was given the partitions that we wrote."""

    def __init__(self, root: Path) -> None:
        self.theirs = root / "theirs"  # a copy of its log directory before it got ours
        self.ours = write_histories(root / "ours")
        self.kafka_records: list[Consumed] = []  # the records of its own topic that it served then
        self.served: dict[str, list[Consumed]] = {}
        self.served_recovered: dict[str, list[Consumed]] = {}
        self.log = ""  # the broker's, before it was killed

    def topics(self) -> list[NewTopic]:
        return [NewTopic(name, 1, 1) for name in (KAFKA_TOPIC, *self.ours)]

    def write(self, broker: KafkaBroker) -> None:
        produce(broker, KAFKA_TOPIC)
        self.kafka_records = consume(broker, KAFKA_TOPIC)

    def stopped(self, data: Path) -> None:
        shutil.copytree(data, self.theirs)
        for name, written in self.ours.items():
            give(written, data / f"{name}-0")

    def read(self, broker: KafkaBroker) -> None:
        self.served = {name: consume(broker, name) for name in self.ours}
        self.log = broker.log()

    def read_recovered(self, broker: KafkaBroker) -> None:
        self.served_recovered = {name: consume(broker, name) for name in self.ours}


@pytest.fixture
def judged(kafka_lives: dict[str, Judged]) -> Judged:
    return kafka_lives[__name__]


@pytest.mark.parametrize("history", HISTORIES)
def test_a_kafka_broker_serves_every_record_of_our_log(judged: Judged, tmp_path: Path, history: str) -> None:
    log = open_log(shutil.copytree(judged.ours[history], tmp_path / "copy"), config=CONFIG)
    expected = records_of(log)
    assert len(expected) > 100
    assert expected[-1].offset == log.log_end_offset - 1
    log.close(clean=False)
    assert judged.served[history] == expected


def test_a_kafka_broker_does_not_complain_of_our_files(judged: Judged) -> None:
    lines = [line for line in judged.log.splitlines() if re.search(r"WARN|ERROR", line) and "UnifiedLog" in line]
    assert [line for line in lines if any(f"{name}-0" in line for name in HISTORIES)] == []
    assert [line for line in judged.log.splitlines() if re.search("checkpoint|crc32c", line) and "ERROR" in line] == []


@pytest.mark.parametrize("clean", [True, False])
def test_our_log_opens_what_a_kafka_broker_wrote(judged: Judged, tmp_path: Path, clean: bool) -> None:
    copy = shutil.copytree(judged.theirs / f"{KAFKA_TOPIC}-0", tmp_path / "copy")
    end_offset = judged.kafka_records[-1].offset + 2  # a transaction marker is last
    log = open_log(copy, config=LogConfig(), clean=clean, recovery_point=end_offset if clean else 0)
    assert len(log.segments) > 2
    assert log.truncated_bytes == 0
    assert records_of(log) == judged.kafka_records
    assert log.log_end_offset == end_offset
    whole = b"".join(path.read_bytes() for path in sorted((judged.theirs / f"{KAFKA_TOPIC}-0").glob("*.log")))
    assert b"".join(bytes(batch.view) for batch in read_batches(log, 0)) == whole
    result = searched(log.search_max_timestamp())
    assert result is not None
    assert result.timestamp == max(batch.header.max_timestamp for batch in read_batches(log, 0))


def test_our_producer_state_is_what_kafka_saved_of_its_own(judged: Judged, tmp_path: Path) -> None:
    copy = shutil.copytree(judged.theirs / f"{KAFKA_TOPIC}-0", tmp_path / "copy")
    newest = sorted(copy.glob("*.snapshot"))[-1]
    saved = parse_snapshot(newest.read_bytes(), str(newest))
    for path in copy.glob("*.snapshot"):
        path.unlink()
    log = open_log(copy, config=LogConfig())
    assert int(newest.stem) == log.log_end_offset
    # A snapshot has one timestamp for each producer, that of its last batch or marker.
    ours = {
        pid: entry._replace(batches=tuple(batch._replace(timestamp=entry.last_timestamp) for batch in entry.batches[-1:]))
        for pid, entry in log.producers.entries.items()
    }
    assert ours == saved


def test_our_log_goes_on_where_a_kafka_broker_stopped(judged: Judged, tmp_path: Path) -> None:
    copy = shutil.copytree(judged.theirs / f"{KAFKA_TOPIC}-0", tmp_path / "copy")
    log = open_log(copy, config=CONFIG, clean=True, recovery_point=10**6)
    write_batches(log, 100)
    log.close(clean=True)
    again = open_log(copy, config=CONFIG)
    assert again.scanned_bytes == 0
    assert records_of(again)[: len(judged.kafka_records)] == judged.kafka_records
    assert BatchHeader.at(read_batches(again, again.log_end_offset - 1)[0].view).last_offset == again.log_end_offset - 1
    text, _ = dump({"both": copy}, (".index", ".timeindex"), "--verify-index-only")
    assert complaints(text) == []


def test_a_kafka_broker_that_recovers_our_log_after_a_kill_serves_the_same(judged: Judged) -> None:
    """It reads our segments again, and makes its own indexes and snapshots of them."""
    assert set(judged.served) == set(HISTORIES)
    assert judged.served_recovered == judged.served
