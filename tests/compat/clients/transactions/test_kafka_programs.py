"""A program of Kafka's own system tests, which copies records and commits its group's offsets in the same transactions."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.transactions.program import Program
from tests.compat.clients.transactions.topic_reader import Record, TopicReader
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.polling import eventually
from tests.support.requirements import ROOT, require

PARTITIONS = 2
RECORDS = 4000
"""In each partition of the source."""
RECORDS_IN_TRANSACTION = 50
TIMEOUT_MS = 10_000
"""A copier that comes back may wait so long: it asks for its offset before it aborts the transaction of its predecessor."""
FLUSH_S = 60.0
COPIED_WITHIN_S = 120.0
GROUP_MODE = ("--group-mode", "--use-group-metadata")
"""The copiers share the partitions as a group, and offsets of an old generation are refused."""

DUE: list[list[Record]] = [[(None, f"{partition}-{number}") for number in range(RECORDS)] for partition in range(PARTITIONS)]


@pytest.fixture
def source(bootstrap: str, admin: Admin, topic: str) -> str:
    """A topic with the records of DUE."""
    name = f"{topic}-source"
    admin.create(name, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, records in enumerate(DUE):
        for _, value in records:
            producer.produce(name, value, partition=partition)
    assert producer.flush(FLUSH_S) == 0
    return name


def copier(bootstrap: str, source: str, copy: str, partition: int, mode: Sequence[str], directory: Path) -> Program:
    require("java", "kafka")
    named = {
        "broker-list": bootstrap,
        "input-topic": source,
        "input-partition": partition,
        "output-topic": copy,
        "consumer-group": copy,
        "transactional-id": f"{copy}-{partition}",
        "transaction-size": RECORDS_IN_TRANSACTION,
        "transaction-timeout": TIMEOUT_MS,
    }
    arguments = [part for name, value in named.items() for part in (f"--{name}", str(value))]
    tool = TOOLS["transactional-message-copier"]
    return Program(KafkaJars(ROOT).command(tool, "--enable-random-aborts", *arguments, *mode, options=TOOL), directory)


def copied(program: Program) -> tuple[int, int]:
    """How many records a copier has copied since its start, and how many are left, as it said last."""
    said = [json.loads(line) for line in program.lines() if line.startswith("{")]
    return (said[-1]["totalProcessed"], said[-1]["remaining"]) if said else (0, RECORDS)


@pytest.mark.parametrize("mode", [(), GROUP_MODE], ids=["assigned", "group"])
def test_copiers_that_abort_or_are_killed_copy_each_record_once(
    bootstrap: str, admin: Admin, source: str, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    copy = f"{source}-copy"
    admin.create(copy, PARTITIONS)
    with ExitStack() as stack:
        reader = stack.enter_context(TopicReader(bootstrap, copy, PARTITIONS))
        copiers = [
            stack.enter_context(copier(bootstrap, source, copy, partition, mode, tmp_path / f"copier-{partition}"))
            for partition in range(PARTITIONS)
        ]

        def amid_their_work() -> list[Program]:
            """The copiers that have come so far. In a group, one of them may still wait for a partition."""
            reader.poll()
            return [program for program in copiers if copied(program)[0] >= RECORDS // 10]

        victim, *_ = eventually(amid_their_work)
        victim.kill()
        assert copied(victim)[1] > 0, victim.story()
        victim.start()

        def all_is_copied() -> bool:
            reader.poll()
            ended = [program.has_ended() for program in copiers]
            return all(ended) and reader.count >= PARTITIONS * RECORDS

        eventually(all_is_copied, COPIED_WITHIN_S)
        assert reader.records == DUE
    with TopicReader(bootstrap, copy, PARTITIONS) as later:
        assert later.read_to_end() == DUE
    with closing(GroupAdmin(bootstrap)) as groups:
        all_offsets = {(source, partition): RECORDS for partition in range(PARTITIONS)}
        eventually(lambda: groups.committed(copy) == all_offsets)
