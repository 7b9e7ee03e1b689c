"""`transaction.version` is changed while a producer of Java runs. Java learns levels from ApiVersions, on each new connection."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.transactional import read
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import ROOT, require

PROGRAM = Path(__file__).parent / "programs" / "JavaTransactions.java"
TOPIC = "levels"
TRANSACTIONS_AT_A_LEVEL = 30
WAIT_S = 60.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=1) as running:
        yield running


class JavaTransactions:
    """The running program. `committed` reads the numbers of its committed transactions so far."""

    def __init__(self, bootstrap: str, output: Path) -> None:
        require("java", "kafka")
        self._output = output
        command = KafkaJars(ROOT).command(str(PROGRAM), bootstrap, TOPIC, options=TOOL)
        with open(output, "wb") as stdout:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout)

    def committed(self) -> list[int]:
        return [int(line) for line in self._output.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]

    def go_on(self) -> None:
        """Returns after some more transactions."""
        before = len(self.committed())
        eventually(lambda: self._process.poll() is not None or len(self.committed()) >= before + TRANSACTIONS_AT_A_LEVEL, WAIT_S)
        assert self._process.poll() is None

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(WAIT_S) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def producer(cluster: LocalCluster, tmp_path: Path) -> Iterator[JavaTransactions]:
    admin = Admin(cluster.bootstrap)
    admin.create(TOPIC, partitions=2, replicas=1)
    admin.close()
    running = JavaTransactions(cluster.bootstrap, tmp_path / "committed")
    yield running
    running.kill()


def requests(cluster: LocalCluster, api: str) -> int:
    """How many requests of an API the gateway has answered since it started."""
    metrics = cluster.admin("gateway-1", "/metrics")
    found = re.search(rf'^penstock_gateway_requests_total{{api="{api}"}} (\d+)', metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def partitions_added(cluster: LocalCluster) -> int:
    """AddPartitionsToTxn of clients. Java's producer sends none from level 2 on."""
    return requests(cluster, "add_partitions_to_txn")


def set_level(cluster: LocalCluster, change: str, level: int) -> None:
    """Changes the level, then ends the connections, so that the producer learns it."""
    feature = ("--feature", f"transaction.version={level}")
    run_tool("kafka-features", "--bootstrap-server", cluster.bootstrap, change, *feature)
    cluster.restart("gateway-1")


def test_transactions_stay_exactly_once_while_the_level_goes_down_and_up(
    cluster: LocalCluster, producer: JavaTransactions
) -> None:
    producer.go_on()
    assert requests(cluster, "end_txn") >= TRANSACTIONS_AT_A_LEVEL
    assert partitions_added(cluster) == 0
    for level in (1, 0):
        set_level(cluster, "downgrade", level)
        producer.go_on()
        before = partitions_added(cluster)
        producer.go_on()
        assert partitions_added(cluster) >= before + TRANSACTIONS_AT_A_LEVEL
    set_level(cluster, "upgrade", 2)
    producer.go_on()
    before = partitions_added(cluster)
    producer.go_on()
    assert partitions_added(cluster) == before
    producer.finish()
    committed = producer.committed()
    values = read(cluster.bootstrap, TOPIC, 2 * len(committed), 2)
    assert sorted(int(value) for value in values) == sorted(committed * 2)
