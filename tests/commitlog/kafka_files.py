"""Our files under a real Kafka: copied into its directory, dumped by its tools, read by its clients."""

import re
import shutil
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.compat.kafka.tools import run_tool
from tests.support.requirements import require

COMPLAINTS = re.compile(r"mismatch|non-consecutive|out of order|corrupt|exception|invalid|isvalid: false|fail|error", re.I)


def dump(directories: dict[str, Path], suffixes: tuple[str, ...], *flags: str) -> tuple[str, list[str]]:
    """The output of DumpLogSegments for all files of these kinds, and the list of these files. One JVM for all of them."""
    require("java", "kafka")
    files = sorted(str(path) for directory in directories.values() for path in directory.iterdir() if path.suffix in suffixes)
    done = run_tool("kafka-dump-log", "--files", ",".join(files), *flags)
    return done.text + done.stderr.decode(), files  # mismatches go to stderr


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if COMPLAINTS.search(line.replace("isvalid: true", ""))]


def watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    """The log's start and end. A broker that has just started leads no partition for a moment."""
    for _ in range(100):
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            consumer.poll(0.1)
    raise AssertionError(f"nobody leads {topic}")


def give(written: Path, partition: Path) -> None:
    """Puts our files under the broker's own partition.metadata, with a line as ours have it. Files that Kafka does not know are
    included."""
    metadata = partition / "partition.metadata"
    metadata.write_text(f"{metadata.read_text(encoding='utf-8').rstrip()}\ncrc32c: 1\n", encoding="utf-8")
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    shutil.copytree(written, partition, dirs_exist_ok=True)
