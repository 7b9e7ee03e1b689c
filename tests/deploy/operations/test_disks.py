"""docs/operate/disks.md: replicas move between disks, a failed disk is replaced, and a full one takes appends again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.compat.clients.admin import Admin
from tests.deploy.health_sentence import is_healthy
from tests.support.polling import eventually
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT, require
from tests.system.faults.small_disks import free_bytes, small_disk

PAGE = ROOT / "docs" / "operate" / "disks.md"
DISK_MIB = 48
RECORD = bytes(500_000)
RECORDS = 40
TOOLS = ("kafka-topics", "kafka-configs", "kafka-log-dirs", "kafka-reassign-partitions")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk("tmpfs", tmp_path_factory.mktemp("disk2"), DISK_MIB) as mounted:
        yield mounted


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, disk: Path) -> Iterator[PrintedCommands]:
    require("java", "kafka", "kcat", "etcd")
    here = tmp_path_factory.mktemp("disks")
    places = {"/disk1/penstock": f"{here}/disk1", "/disk2/penstock": f"{disk}/penstock", "/tmp/move.json": f"{here}/move.json"}
    with printed_commands(PAGE, here, tools=TOOLS, places=places) as ready:
        yield ready


def test_a_replica_moves_to_the_other_directory(commands: PrintedCommands, disk: Path) -> None:
    both = commands.section("A node with several directories")
    assert '"partition":"bills-0"' in both
    assert '"partition":"bills-1"' in both
    commands.section("Move replicas between directories")
    assert (disk / "penstock" / "bills-0").is_dir()


def test_a_retired_directory_is_replaced_by_an_empty_one(commands: PrintedCommands, disk: Path) -> None:
    commands.end("storage-3")
    (disk / "penstock" / ".retired").write_text("Input/output error", encoding="utf-8")
    commands.sh("make up")
    eventually(lambda: "1 log directory of storage-3 does not work" in commands.sh("make -s status || true"))
    printed = commands.section("A failed disk")
    assert "log directory is gone, the replica is copied anew from its leader" in printed
    assert is_healthy(printed.splitlines()[-1])


def test_a_full_directory_takes_appends_again_when_a_topic_is_deleted(commands: PrintedCommands, disk: Path) -> None:
    bootstrap = commands.bootstrap
    admin = Admin(bootstrap)
    admin.create_all([NewTopic("scratch", 2, replica_assignment=[[3, 1], [3, 2]])])
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce("scratch", RECORD, partition=number % 2)
        producer.flush(60)
    with open(disk / "other-program", "wb") as other:
        other.write(bytes(free_bytes(disk) - 100_000))
    for partition in (0, 1):
        producer.produce("scratch", RECORD, partition=partition)
    producer.flush(60)
    eventually(lambda: "of storage-3 is full" in commands.sh("make -s status || true"))
    assert is_healthy(commands.section("A full disk").splitlines()[-1])
