"""docs/operate/disaster.md: metadata are rebuilt, a partition goes on with what is left of it, and a lost topic is made again."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from tests.compat.clients.admin import Admin
from tests.deploy.health_sentence import is_healthy
from tests.support.polling import eventually
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "operate" / "disaster.md"
NODES = PAGE.with_name("nodes.md")
TOOLS = ("kafka-topics", "kafka-leader-election", "kafka-get-offsets")


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backups") / "metadata-1"


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, backup: Path) -> Iterator[PrintedCommands]:
    require("java", "kafka", "kcat", "etcd")
    places = {"/backups/metadata-1": str(backup)}
    with printed_commands(PAGE, tmp_path_factory.mktemp("disaster"), tools=TOOLS, places=places) as ready:
        ready.sh("make up STORAGE=3")
        yield ready


def create(commands: PrintedCommands, topic: str, *replicas: int) -> None:
    admin = Admin(commands.bootstrap)
    admin.create_all([NewTopic(topic, 1, replica_assignment=[list(replicas)])])
    admin.close()
    commands.sh(f"seq 1 100 | kcat -P -b 127.0.0.1:9092 -t {topic}")


def lose(commands: PrintedCommands, node: int) -> None:
    """Kills a storage node and empties its only log directory, as a new disk does."""
    commands.end(f"storage-{node}", signal.SIGKILL)
    shutil.rmtree(commands.run_directory.data_directory(f"storage-{node}") / "logs")


def status(commands: PrintedCommands) -> str:
    return commands.sh("make -s status || true").splitlines()[0]


def test_a_backup_is_written(commands: PrintedCommands, backup: Path) -> None:
    create(commands, "kept", 1, 2)
    commands.section("A backup plan")
    assert '"kept"' in backup.read_text(encoding="utf-8")


def test_metadata_are_rebuilt_from_the_disks(commands: PrintedCommands) -> None:
    commands.sh("kill -9 $(cat .run/pids/etcd.pid); rm -r .run/data/etcd")
    printed = commands.section("etcd is lost with its disks").splitlines()
    assert is_healthy(printed[-1])
    assert commands.sh("kcat -C -b 127.0.0.1:9092 -t kept -e -q | wc -l").strip() == "100"


def test_another_replica_leads_without_what_only_the_lost_one_had(commands: PrintedCommands) -> None:
    create(commands, "losses", 3, 2)
    commands.end("storage-2", signal.SIGKILL)
    eventually(lambda: "under-replicated" in status(commands))
    commands.sh("seq 101 110 | kcat -P -b 127.0.0.1:9092 -t losses")
    lose(commands, 3)
    commands.sh("make up")
    eventually(lambda: "the log directory of its in-sync replica on storage-3 is gone" in status(commands))
    printed = commands.section("All in-sync replicas of a partition are lost").splitlines()
    assert is_healthy(printed[-2])
    assert printed[-1] == "losses:0:100"


def test_a_topic_that_is_lost_whole_is_created_again(commands: PrintedCommands) -> None:
    create(commands, "gone", 1)
    lose(commands, 1)
    commands.sh("make up")
    eventually(lambda: "gone-0" in status(commands))
    assert is_healthy(commands.section("All replicas of a partition are lost").splitlines()[-1])


def test_one_member_of_etcd_goes_on_alone(tmp_path: Path) -> None:
    require("etcd")
    at_a = "curl -sf 127.0.0.1:9211/v3/kv"
    key, later, value = "a2V5", "bGF0ZXI=", "dmFsdWU="
    with printed_commands(PAGE, tmp_path, places={"/tmp/etcd-trial": str(tmp_path / "etcd")}) as commands:
        commands.section("Three members", page=NODES)
        # An acknowledged write may be on the two others only, and a member applies one before its log says that it is
        # committed. The survivor has applied the later one, so its log has the first one as committed.
        for each in (key, later):
            commands.sh(f"""{at_a}/put -d '{{"key": "{each}", "value": "{value}"}}'""")
        own = f"""{at_a}/range -d '{{"key": "{later}", "serializable": true}}'"""
        eventually(lambda: value in commands.sh(own))
        commands.sh("kill -9 $(cat /tmp/etcd-trial/a.pid /tmp/etcd-trial/b.pid /tmp/etcd-trial/c.pid)")
        printed = commands.section("etcd lost its quorum")
        found = commands.sh(f"""{at_a}/range -d '{{"key": "{key}"}}'""")
    assert [line.split('"')[-2] for line in printed.splitlines()] == ["a"]
    assert f'"{value}"' in found
