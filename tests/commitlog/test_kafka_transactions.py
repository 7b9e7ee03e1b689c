"""Kafka 4.2.1 as judge of transactions: our log on what its broker wrote, its broker and its tools on what our log wrote."""

import random
import re
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from libs.commitlog.files.file_names import TRANSACTION_INDEX
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.transaction_index import ENTRY
from tests.commitlog import kafka_lives
from tests.commitlog.harness import append_some, open_log
from tests.commitlog.kafka_files import complaints, dump, give
from tests.commitlog.transactional import end, is_open, produce, read_committed
from tests.compat.kafka.broker import KafkaBroker
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import require

THEIRS, OURS = "transactions-of-kafka", "transactions-of-ours"
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500, segment_index_bytes=4800)
RECORDS = 100


class Judged(kafka_lives.Judged):
    """The broker wrote one topic, and was given another that we wrote."""

    def __init__(self, root: Path) -> None:
        self.theirs = root / THEIRS / f"{THEIRS}-0"  # a copy of what it wrote, when it was stopped
        self.ours = root / OURS / f"{OURS}-0"
        write_ours(self.ours)
        self.served: list[int] = []  # the offsets of its topic that it served to a reader of committed records
        self.stable = -1
        self.served_of_ours: list[list[int]] = []  # before and after it was killed
        self.stable_of_ours = -1
        self._open_for_ever: Producer | None = None

    def topics(self) -> list[NewTopic]:
        return [NewTopic(name, 1, 1) for name in (THEIRS, OURS)]

    def write(self, broker: KafkaBroker) -> None:
        self._open_for_ever = write_theirs(broker)
        self.stable, self.served = last_stable(broker.bootstrap, THEIRS), consume_committed(broker.bootstrap, THEIRS)

    def stopped(self, data: Path) -> None:
        self._open_for_ever = None
        shutil.copytree(data / f"{THEIRS}-0", self.theirs)
        give(self.ours, data / f"{OURS}-0")

    def read(self, broker: KafkaBroker) -> None:
        self.served_of_ours.append(consume_committed(broker.bootstrap, OURS))
        self.stable_of_ours = last_stable(broker.bootstrap, OURS)

    def read_recovered(self, broker: KafkaBroker) -> None:
        self.served_of_ours.append(consume_committed(broker.bootstrap, OURS))


@pytest.fixture
def judged(kafka_lives: dict[str, Judged]) -> Judged:
    return kafka_lives[__name__]


def write_theirs(broker: KafkaBroker) -> Producer:
    """Three producers take turns, in transactions that overlap, end either way and span segments; another uses none. The last
    transaction of one of them never ends: it is returned."""
    dice = random.Random(8)
    plain = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    going = [
        Producer({
            "bootstrap.servers": broker.bootstrap, "transactional.id": f"judge-{n}", "transaction.timeout.ms": 900_000,
            "linger.ms": 0,
        })
        for n in range(3)
    ]  # fmt: skip
    for producer in going:
        producer.init_transactions(60)
    busy: set[int] = set()
    for _ in range(60):
        n = dice.randrange(4)
        writer = plain if n == 3 else going[n]
        if n < 3 and n not in busy:
            writer.begin_transaction()
            busy.add(n)
        for _ in range(dice.randrange(1, 30)):
            writer.produce(THEIRS, dice.randbytes(4000), partition=0)
        assert writer.flush(60) == 0
        if n < 3 and dice.random() < 0.5:
            (writer.commit_transaction if dice.random() < 0.5 else writer.abort_transaction)(60)
            busy.discard(n)
    for n in sorted(busy):
        going[n].abort_transaction(60)
    going[0].begin_transaction()
    for producer in (going[0], plain):
        producer.produce(THEIRS, b"after the last stable offset", partition=0)
        assert producer.flush(60) == 0
    return going[0]


def write_ours(path: Path) -> None:
    dice = random.Random(9)
    log = open_log(path, OsFileSystem(), CONFIG)
    for _ in range(300):
        producer = dice.randrange(1000, 1004)
        if dice.random() < 0.2:
            append_some(log, 1, count=2)
        elif is_open(log, producer) and dice.random() < 0.4:
            end(log, producer, commit=dice.random() < 0.5)
        else:
            produce(log, producer, count=dice.randrange(1, 4), size=300)
    for producer in range(1000, 1003):
        end(log, producer, commit=False)
    produce(log, 1003)
    append_some(log, 3)
    log.close(clean=True)
    assert len(list(path.glob("*.txnindex"))) > 2


def consume_committed(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed",
        "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True,
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        offsets: list[int] = []
        while (message := consumer.poll(30)) is not None:
            error, offset = message.error(), message.offset()
            if error is None and offset is not None:
                offsets.append(offset)
            elif error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return offsets
                assert error.code() == KafkaError.NOT_LEADER_FOR_PARTITION, error
        raise AssertionError(f"{topic}: nothing came for 30 s after {len(offsets)} records")
    finally:
        consumer.close()


def last_stable(bootstrap: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partition = TopicPartition(topic, 0)
    offsets = admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    return int(offsets[partition].result(60).offset)


def indexes_of(path: Path) -> dict[str, bytes]:
    return {index.name: index.read_bytes() for index in sorted(path.glob(f"*{TRANSACTION_INDEX}")) if index.stat().st_size}


def reopened(judged: Judged, path: Path, *, clean: bool) -> Log:
    shutil.copytree(judged.theirs, path)
    return open_log(path, config=LogConfig(), clean=clean, recovery_point=10**6 if clean else 0)


@pytest.mark.parametrize("clean", [True, False])
def test_our_log_serves_what_a_kafka_broker_wrote_as_kafka_does(judged: Judged, tmp_path: Path, clean: bool) -> None:
    log = reopened(judged, tmp_path / "copy", clean=clean)
    assert log.truncated_bytes == 0
    assert len(log.segments) > 2
    assert log.last_stable_offset(log.log_end_offset) == judged.stable < log.log_end_offset
    assert len(judged.served) > RECORDS
    for max_bytes in (1, 100_000, 1 << 30):
        assert read_committed(log, log.log_end_offset, max_bytes=max_bytes).offsets == judged.served


@pytest.mark.parametrize("clean", [True, False])
def test_our_indexes_are_those_that_kafka_wrote(judged: Judged, tmp_path: Path, clean: bool) -> None:
    """A start after a crash reads the batches, and comes to the same entries, byte for byte."""
    log = reopened(judged, tmp_path / "copy", clean=clean)
    log.close(clean=True)
    theirs = indexes_of(judged.theirs)
    assert sum(map(len, theirs.values())) > 5 * ENTRY.size
    assert indexes_of(tmp_path / "copy") == theirs


def test_damaged_indexes_of_kafkas_are_made_again_as_they_were(judged: Judged, tmp_path: Path) -> None:
    copy = shutil.copytree(judged.theirs, tmp_path / "copy")
    for name, content in indexes_of(copy).items():
        (copy / name).write_bytes(content[:-1])
    log = open_log(copy, config=LogConfig(), clean=True, recovery_point=10**6)
    assert read_committed(log, log.log_end_offset).offsets == judged.served
    log.close(clean=True)
    assert indexes_of(copy) == indexes_of(judged.theirs)


def test_the_open_transaction_of_a_kafka_log_can_end_here(judged: Judged, tmp_path: Path) -> None:
    log = reopened(judged, tmp_path / "copy", clean=True)
    ((first, producer_id),) = log.producers.transactions.ongoing
    assert first == judged.stable
    append_some(log, 1)
    log.truncate_to(log.log_end_offset - 1)
    assert log.last_stable_offset(log.log_end_offset) == first
    plain = log.log_end_offset - 1
    end(log, producer_id, commit=False)
    assert read_committed(log, log.log_end_offset).offsets == [*judged.served, plain]


def test_kafka_dumps_our_transaction_indexes(judged: Judged) -> None:
    text, files = dump({OURS: judged.ours, THEIRS: judged.theirs}, (TRANSACTION_INDEX,))
    assert complaints(text) == []
    assert text.count("Dumping ") == len(files) > 3
    entries = sum(len(content) // ENTRY.size for path in (judged.ours, judged.theirs) for content in indexes_of(path).values())
    assert text.count("producerId: ") == entries


def test_a_kafka_broker_serves_committed_records_of_our_log_as_we_do(judged: Judged, tmp_path: Path) -> None:
    log = open_log(shutil.copytree(judged.ours, tmp_path / "copy"), config=CONFIG)
    expected = read_committed(log, log.log_end_offset).offsets
    assert len(expected) > RECORDS
    assert judged.stable_of_ours == log.last_stable_offset(log.log_end_offset) < log.log_end_offset
    assert judged.served_of_ours == [expected, expected], "before and after a kill"


@pytest.mark.parametrize("whose", [OURS, THEIRS])
def test_our_own_judge_finds_the_files_sound(judged: Judged, whose: str) -> None:
    findings = Findings()
    verify(OsFileSystem(), str(judged.ours if whose == OURS else judged.theirs), findings, records=True)
    assert [finding for finding in findings.entries if not finding.path.endswith("partition.metadata")] == []


def test_clients_of_ours_read_what_kafka_committed(judged: Judged) -> None:
    """Its files under our own partition.metadata; the clients are librdkafka and Kafka's own."""
    require("java", "kafka")
    with LocalCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(THEIRS, 1, 1)])[THEIRS].result(60)
        (partition,) = partition_directories(cluster)
        cluster.kill("storage-1", signal.SIGTERM)
        for file in judged.theirs.iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, partition)
        cluster.start("storage-1")
        cluster.wait_ready(["storage-1"])
        assert consume_committed(cluster.bootstrap, THEIRS) == judged.served
        assert last_stable(cluster.bootstrap, THEIRS) == judged.stable
        output = run_tool(
            "kafka-console-consumer", "--bootstrap-server", cluster.bootstrap, "--topic", THEIRS, "--partition", "0",
            "--offset", "earliest", "--isolation-level", "read_committed", "--timeout-ms", "5000",
            "--formatter-property", "print.offset=true", "--formatter-property", "print.value=false",
        )  # fmt: skip
        assert [int(offset) for offset in re.findall(r"^Offset:(\d+)", output.text, re.MULTILINE)] == judged.served


def partition_directories(cluster: LocalCluster) -> list[Path]:
    """The topic's partition directory, once its storage node has made it."""

    def made() -> list[Path]:
        return [
            path for path in cluster.data_directory("storage-1").rglob(f"{THEIRS}-0") if (path / "partition.metadata").exists()
        ]

    return eventually(made)
