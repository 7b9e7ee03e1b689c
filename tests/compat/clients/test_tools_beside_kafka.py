"""Kafka's tools that no other test runs: the same commands to Apache Kafka 4.2.1 and to Penstock, one broker each.

Their output is the same, or a row of `services/gateway/protocol_docs/tools.py` says what it is here.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from services.gateway.protocol_docs.tools import TOOL_ROWS, ToolRow
from tests.compat.clients.admin import Admin
from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.compat.kafka.tools import ToolResult, run_endless_tool, run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import require

TOPIC = "tools"
CLIENT = ("--entity-type", "clients", "--entity-name", "c")
USER = ("--entity-type", "users", "--entity-name", "scram")
USERS_CLIENTS = ("--entity-type", "users", "--entity-name", "u", "--entity-type", "clients", "--entity-default")
SAME = (
    ("kafka-client-metrics", "--list"),
    ("kafka-client-metrics", "--describe"),
    ("kafka-client-metrics", "--describe", "--name", "not-there"),
    ("kafka-cluster list-endpoints",),
    ("kafka-configs", "--describe", "--entity-type", "groups"),
    ("kafka-configs", "--describe", "--entity-type", "client-metrics"),
    ("kafka-configs", *CLIENT, "--alter", "--add-config", "producer_byte_rate=1048576"),
    ("kafka-configs", *CLIENT, "--describe"),
    ("kafka-configs", *USERS_CLIENTS, "--alter", "--add-config", "request_percentage=200,consumer_byte_rate=1048576"),
    ("kafka-configs", *USERS_CLIENTS, "--alter", "--delete-config", "consumer_byte_rate"),
    ("kafka-configs", *USERS_CLIENTS, "--describe"),
    ("kafka-configs", "--entity-type", "ips", "--entity-default", "--alter", "--add-config", "connection_creation_rate=100000"),
    ("kafka-configs", "--entity-type", "ips", "--describe"),
    ("kafka-configs", *USER, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=p],SCRAM-SHA-512=[password=p]"),
    ("kafka-configs", *USER, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=5000,password=p]"),
    ("kafka-configs", *USER, "--describe"),
    ("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"),
    ("kafka-log-dirs", "--describe", "--topic-list", TOPIC),
    ("kafka-share-groups", "--list"),
    ("kafka-streams-groups", "--list"),
    ("kafka-transactions", "describe-producers", "--topic", TOPIC, "--partition", "0"),
    ("kafka-transactions", "find-hanging", "--topic", TOPIC),
    ("kafka-streams-application-reset", "--application-id", "app", "--input-topics", TOPIC, "--dry-run"),
)
RUNS_MAX = 20
"""Of a tool that takes a second."""
LEVEL_CHANGES = (
    ("describe",),
    ("upgrade", "--feature", "transaction.version=3"),
    ("downgrade", "--feature", "transaction.version=1", "--dry-run"),
    ("describe",),
    ("downgrade", "--feature", "transaction.version=1"),
    ("disable", "--feature", "transaction.version"),
    ("describe",),
    ("upgrade", "--feature", "transaction.version=2"),
    ("describe",),
)
"""Commands of kafka-features."""


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Kafka's and Penstock's. Neither is the session's: both must hold the same topics, and each have one broker."""
    require("java", "kafka", "etcd")
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), options=QUICK) as kafka, LocalCluster(storage=1) as penstock:
        for bootstrap in (kafka.bootstrap, penstock.bootstrap):
            admin = Admin(bootstrap)
            admin.create(TOPIC, partitions=2, replicas=1)
            admin.close()
        yield kafka.bootstrap, penstock.bootstrap


def run(bootstrap: str, command: tuple[str, ...]) -> ToolResult:
    """A tool, and a command of it that comes before `--bootstrap-server`, stand in the first word."""
    tool, *mode = command[0].split()
    return run_tool(tool, *mode, "--bootstrap-server", bootstrap, *command[1:], check=False)


def run_until_it_says(kafka: str, command: tuple[str, ...], text: str) -> ToolResult:
    """Runs a command that changes nothing until it says that, or in vain.

    Kafka has answered the change before when its controller had it. Its broker describes what it has followed so far.
    """
    for _ in range(RUNS_MAX):
        result = run(kafka, command)
        if without_places(result.text) == without_places(text):
            break
    return result


def without_places(text: str) -> str:
    """Without ports and directories, and without the order of a user's mechanisms: Kafka's follows from hashes of enums."""
    text = re.sub(r"(?m)(?<= are )SCRAM.*$", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    text = re.sub(r"(127\.0\.0\.1.)\d+", r"\1PORT", text)
    return re.sub(r'"logDir":"[^"]+"', '"logDir":"DIRECTORY"', text)


@pytest.mark.parametrize("command", SAME, ids=" ".join)
def test_a_tool_prints_what_it_prints_against_kafka(bootstraps: tuple[str, str], command: tuple[str, ...]) -> None:
    with ThreadPoolExecutor(2) as pool:
        kafka, penstock = pool.map(lambda bootstrap: run(bootstrap, command), bootstraps)
    if "--describe" in command and without_places(penstock.text) != without_places(kafka.text):
        kafka = run_until_it_says(bootstraps[0], command, penstock.text)
    assert without_places(penstock.text) == without_places(kafka.text)
    assert penstock.returncode == kafka.returncode


def test_the_features_tool_lowers_and_raises_a_level_as_against_kafka(bootstraps: tuple[str, str]) -> None:
    """One command after the other: each begins with the level that the one before has left."""
    with ThreadPoolExecutor(2) as pool:
        for change in LEVEL_CHANGES:
            kafka, penstock = pool.map(partial(change_level, change), bootstraps)
            shown = level_of_transactions(kafka.text)
            assert shown, change
            assert level_of_transactions(penstock.text) == shown, change
            assert penstock.returncode == kafka.returncode, change


def change_level(arguments: tuple[str, ...], bootstrap: str) -> ToolResult:
    return run_tool("kafka-features", "--bootstrap-server", bootstrap, *arguments, check=False)


def level_of_transactions(text: str) -> list[str]:
    """What the tool says, without other features and the epoch. Penstock has fewer features."""
    return [line.partition("\tEpoch:")[0] for line in text.splitlines() if "transaction.version" in line]


@pytest.mark.parametrize("row", TOOL_ROWS, ids=lambda row: " ".join((row.tool, *row.arguments)))
def test_a_tool_that_needs_what_is_not_built_says_so(bootstraps: tuple[str, str], row: ToolRow, tmp_path: Path) -> None:
    arguments = row.arguments
    if row.tool == "kafka-delegation-tokens":
        (tmp_path / "empty.properties").touch()
        arguments = (*arguments, "--command-config", str(tmp_path / "empty.properties"))
    result = run(bootstraps[1], (row.tool, *arguments))
    assert row.says in result.text + result.stderr.decode()


def test_the_replica_verification_tool_compares_replicas(bootstraps: tuple[str, str]) -> None:
    run_tool("kafka-console-producer", "--bootstrap-server", bootstraps[1], "--topic", TOPIC, stdin=b"1\n2\n3\n")
    command = ("--broker-list", bootstraps[1], "--topics-include", TOPIC, "--report-interval-ms", "200")
    run_endless_tool("kafka-replica-verification", *command, until=("among 2 partitions", "max lag is 0 for partition tools-"))
