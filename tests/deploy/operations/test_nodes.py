"""docs/operate/nodes.md: storage nodes, gateways, coordinators, controllers and members of etcd come and go as it is printed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.health_sentence import is_healthy
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "operate" / "nodes.md"
COUNT = "kcat -C -b 127.0.0.1:9092 -t orders -e -q | wc -l"
SOON = "self.balancing.away.ms=1000"
"""A node that joined gets replicas after that, instead of a minute."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "kafka", "kcat", "etcd")
    tools = ("kafka-topics", "kafka-configs", "kafka-cluster")
    with printed_commands(PAGE, tmp_path_factory.mktemp("nodes"), tools=tools) as ready:
        ready.section("A cluster to try it on")
        yield ready


def test_a_storage_node_joins_gets_replicas_and_leaves_empty(commands: PrintedCommands) -> None:
    all_brokers = "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type brokers --entity-default"
    commands.sh(f"{all_brokers} --add-config {SOON}")
    commands.section("Add a storage node")
    assert any(map(is_healthy, commands.section("Remove a storage node").splitlines()))
    assert int(commands.sh(COUNT)) == 20_000


def test_a_gateway_comes_and_goes(commands: PrintedCommands) -> None:
    assert is_healthy(commands.section("Gateways").splitlines()[-1])


def test_coordinators_and_controllers_come_and_go(commands: PrintedCommands) -> None:
    printed = commands.section("Coordinators, controllers and quota managers").splitlines()
    assert any(line.startswith("transaction_coordinator-2 ") and " yes " in line for line in printed)
    assert any(line.startswith("quota_manager-2 ") and " yes (standby of quota manager 1) " in line for line in printed)
    assert is_healthy(printed[-1])


def test_a_lost_member_of_etcd_is_replaced(tmp_path: Path) -> None:
    require("etcd")
    with printed_commands(PAGE, tmp_path, places={"/tmp/etcd-trial": str(tmp_path / "etcd")}) as commands:
        printed = commands.section("Members of etcd").splitlines()
    assert sorted(line.split('"')[-2] for line in printed[-3:]) == ["a", "b", "d"]
