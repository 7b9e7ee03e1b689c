"""The end of a log is lost, and somebody goes on without it: consumers pass over the offsets that are gone, at once."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from libs.commitlog import __main__ as inspection
from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_kcat, run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

TOPIC = "lost"
RECORDS, KEPT = 100, 95


def produce(cluster: LocalCluster, numbers: range) -> None:
    """A batch for each."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number in numbers:
        producer.produce(TOPIC, f"{number}", partition=0)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def cut() -> Iterator[LocalCluster]:
    """A served partition that kept KEPT of its RECORDS."""
    with LocalCluster() as cluster:
        Admin(cluster.bootstrap).create(TOPIC)
        produce(cluster, range(RECORDS))
        cluster.kill("storage-1", signal.SIGTERM)
        eventually(lambda: not cluster.is_running("storage-1"))
        path = partition(cluster)
        segment = path / f"{0:020d}.log"
        os.truncate(segment, cut_at(segment, KEPT))
        cluster.start("storage-1")
        eventually(lambda: "partition is offline: synced records are missing" in cluster.log("storage-1"))
        assert inspection.main(["accept-loss", str(path)]) == inspection.CLEAN
        eventually(lambda: not (path / "accept-loss").exists())
        yield cluster


def partition(cluster: LocalCluster) -> Path:
    [found] = cluster.data_directory("storage-1").glob(f"**/{TOPIC}-0")
    return found


def cut_at(segment: Path, offset: int) -> int:
    """The file position of the batch with that offset."""
    content, position = segment.read_bytes(), 0
    while int.from_bytes(content[position : position + 8], "big") < offset:
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return position


def test_a_consumer_comes_to_the_end_before_anybody_writes(cut: LocalCluster) -> None:
    consumer = Consumer({
        "bootstrap.servers": cut.bootstrap, "group.id": "lost", "enable.auto.commit": False, "enable.partition.eof": True,
        "auto.offset.reset": "error",
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition(TOPIC, 0, KEPT - 1)])
        first = consumer.poll(30)
        assert first is not None
        assert first.offset() == KEPT - 1
        end = consumer.poll(30)
        assert end is not None, "neither a record nor the end"
        error = end.error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF
        assert end.offset() == RECORDS
        assert consumer.position([TopicPartition(TOPIC, 0)])[0].offset >= KEPT
    finally:
        consumer.close()


def test_kcat_reads_what_is_left_and_ends(cut: LocalCluster) -> None:
    read = run_kcat("-C", "-e", "-q", "-b", cut.bootstrap, "-t", TOPIC, "-p", "0", "-o", "beginning", "-f", "%o\n")
    assert [int(line) for line in read.text.split()] == list(range(KEPT))


def test_javas_consumer_reads_over_the_gap_and_kafka_finds_the_files_sound(cut: LocalCluster, tmp_path: Path) -> None:
    copy = shutil.copytree(partition(cut), tmp_path / "copy" / f"{TOPIC}-0")
    done = run_tool("kafka-dump-log", "--files", ",".join(map(str, copy.glob("*.log"))), "--deep-iteration")
    assert f"baseOffset: {KEPT} lastOffset: {RECORDS - 1} count: 0" in done.text
    assert "isvalid: false" not in done.text
    assert not done.stderr
    server = ("--bootstrap-server", cut.bootstrap, "--topic", TOPIC)
    assert f"{TOPIC}:0:{RECORDS}" in run_tool("kafka-get-offsets", *server, "--time", "latest").text
    produce(cut, range(RECORDS, RECORDS + 1))
    reading = ("--partition", "0", "--offset", f"{KEPT + 2}", "--max-messages", "1", "--timeout-ms", "30000")
    assert run_tool("kafka-console-consumer", *server, *reading).text.split() == [f"{RECORDS}"]
    assert inspection.main(["verify", str(copy)]) == inspection.CLEAN
