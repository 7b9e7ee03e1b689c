"""Kafka's tools that show and change the cluster itself, with two gateways, two storage nodes and two controllers."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.compat.kafka.tools import ToolResult, run_tool, run_tools
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually


@pytest.fixture(scope="module")
def pairs() -> Iterator[LocalCluster]:
    with LocalCluster(storage=2, gateways=2, controllers=2) as running:
        yield running


def test_the_quorum_tool_shows_the_elected_controller_and_its_standby(pairs: LocalCluster) -> None:
    describe = ("kafka-metadata-quorum", "--bootstrap-server", pairs.bootstrap, "describe")
    status, replication = (result.text for result in run_tools((*describe, "--status"), (*describe, "--replication")))
    assert re.fullmatch(
        r"ClusterId:              \S{22}\n"
        r"LeaderId:               (1|2)\n"
        r"LeaderEpoch:            \d+\n"
        r"HighWatermark:          \d+\n"
        r"MaxFollowerLag:         \d+\n"
        r"MaxFollowerLagTimeMs:   \d+\n"
        r'CurrentVoters:          \[\{"id": 1\}, \{"id": 2\}\]\n'
        r"CurrentObservers:       \[\]\n",
        status,
    ), status
    heads, *rows = [line.split() for line in replication.splitlines()]
    assert heads == ["NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"]
    assert sorted(row[0] for row in rows) == ["1", "2"]
    assert [row[-1] for row in rows] == ["Leader", "Follower"]  # as in Kafka, the leader comes first
    assert int(rows[0][2]) > 0


def test_the_quorum_tool_follows_an_election(pairs: LocalCluster) -> None:
    def leader() -> tuple[int, int]:
        described = run_tool("kafka-metadata-quorum", "--bootstrap-server", pairs.bootstrap, "describe", "--status").text
        (found,) = re.findall(r"LeaderId:\s+(\d)\nLeaderEpoch:\s+(\d+)", described)
        return int(found[0]), int(found[1])

    former, epoch = leader()
    pairs.kill(f"controller-{former}")
    eventually(lambda: leader()[0] != former)
    assert leader()[1] > epoch
    pairs.start(f"controller-{former}")
    pairs.wait_ready([f"controller-{former}"])


def test_the_features_tool_refuses_features_that_the_software_does_not_have(pairs: LocalCluster) -> None:
    features = ("kafka-features", "--bootstrap-server", pairs.bootstrap)
    described = run_tool(*features, "describe").text
    line = "Feature: {}\tSupportedMinVersion: {}\tSupportedMaxVersion: {}\tFinalizedVersionLevel: {}\tEpoch: \\d+\n"
    lines = line.format("group.version", 1, 1, 1) + line.format("transaction.version", 0, 2, 2)
    assert re.fullmatch(lines, described), described
    assert run_tool(*features, "upgrade", "--feature", "group.version=1").text == "group.version was upgraded to 1.\n"
    refused = run_tool(*features, "upgrade", "--feature", "share.version=1", check=False)
    assert refused.returncode == 1
    assert refused.text.startswith("Could not upgrade share.version to 1. The update failed for all features since")
    assert re.search(r"Local controller \d does not support this feature.\n$", refused.text)
    lowered = run_tool(*features, "downgrade", "--feature", "group.version=0", check=False)
    assert "only supports versions 1-1" in lowered.text


def levels_of(cluster: LocalCluster, role: str, number: int = 1) -> dict[str, str]:
    return dict(json.loads(cluster.admin(f"{role}-{number}", "/debug/log-levels")))


def test_the_configs_tool_changes_log_levels_of_one_broker_at_run_time(pairs: LocalCluster) -> None:
    def loggers(*arguments: str, broker: int = 1, check: bool = True) -> ToolResult:
        of_broker = ("--entity-type", "broker-loggers", "--entity-name", str(broker))
        return run_tool("kafka-configs", "--bootstrap-server", pairs.bootstrap, *of_broker, *arguments, check=check)

    name = "network"
    described = loggers("--describe").text
    assert described.startswith("Dynamic configs for broker-logger 1 are:\n")
    for logger in ("root", "replication", "state.change.logger", name):
        assert f"  {logger}=INFO sensitive=false synonyms={{}}\n" in described
    assert loggers("--alter", "--add-config", f"{name}=DEBUG").text == "Completed updating config for broker-logger 1.\n"
    levels = [f"  {name}={level} " in loggers("--describe", broker=broker).text for broker, level in ((1, "DEBUG"), (2, "INFO"))]
    assert levels == [True, True]  # two gateways, and each serves one broker id
    assert loggers("--alter", "--delete-config", name).text == "Completed updating config for broker-logger 1.\n"
    assert f"  {name}=INFO " in loggers("--describe").text
    shown = {role: levels_of(pairs, role) for role in ("storage", "controller", "group_coordinator")}
    assert {levels["state.change.logger"] for levels in shown.values()} == {"INFO"}
    loggers("--alter", "--add-config", "state.change.logger=DEBUG,kafka.cluster.Partition=DEBUG")
    shown = {role: levels_of(pairs, role) for role in shown}
    assert [levels["elections"] for levels in shown.values()] == ["DEBUG", "DEBUG", "INFO"]
    assert [levels["replication"] for levels in shown.values()] == ["DEBUG", "INFO", "INFO"]
    assert levels_of(pairs, "storage", 2)["replication"] == "INFO"
    assert "  replication=DEBUG " in loggers("--describe").text
    assert "  elections=DEBUG " in loggers("--describe", broker=2).text, "the controllers log so, whichever broker is named"
    loggers("--alter", "--delete-config", "state.change.logger,replication")
    assert levels_of(pairs, "controller")["elections"] == "INFO"
    refused = loggers("--alter", "--add-config", f"{name}=LOUD", check=False)
    assert refused.returncode == 1
    assert "is not a supported log level" in refused.text + refused.stderr.decode()
    unknown = loggers("--alter", "--add-config", "no.such.logger=INFO", check=False)
    assert unknown.returncode == 1
    assert "Invalid broker logger(s): no.such.logger" in unknown.text + unknown.stderr.decode()
