"""What coordinators find takes too long reaches a controller with their heartbeats, and ends with them."""

from types import SimpleNamespace
from typing import Any

import pytest

from libs.cluster.health import MARKERS, REBALANCE, SHOWN_MAX, LongRunning
from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from libs.rpc.contracts.controller import FINDING_NAME_LENGTH_MAX, FINDINGS_MAX, Finding, Heartbeat
from libs.rpc.messages.schema import pack, unpack
from services.controller.core.failure_detection.findings import KEPT_MS, ReportedFindings
from services.controller.core.failure_detection.liveness import Process
from services.controller.failure_detection.failure_detector import FailureDetector

GROUPS, TRANSACTIONS = Process(GROUP_COORDINATOR, 1, 1), Process(TRANSACTION_COORDINATOR, 1, 1)


def test_the_longest_of_all_processes_comes_first() -> None:
    findings = ReportedFindings()
    findings.report(GROUPS, (Finding(REBALANCE, "a", 5), Finding(REBALANCE, "b", 9)), 0)
    findings.report(TRANSACTIONS, (Finding(MARKERS, "t", 7),), 0)
    assert [each.name for each in findings.longest(1)] == ["a", "t", "b"]
    findings.report(GROUPS, (), 1)
    assert findings.longest(1) == [LongRunning(MARKERS, "t", 7)]


def test_findings_end_with_the_heartbeats_and_the_registration_of_their_process() -> None:
    findings = ReportedFindings()
    findings.report(GROUPS, (Finding(REBALANCE, "a", 5),), 0)
    findings.report(TRANSACTIONS, (Finding(MARKERS, "t", 7),), KEPT_MS)
    assert [each.name for each in findings.longest(KEPT_MS)] == ["t"]
    findings.watch([GROUPS])
    assert findings.longest(KEPT_MS) == []


def test_their_number_and_the_length_of_names_have_bounds_whoever_sends_them() -> None:
    findings = ReportedFindings()
    for node_id in range(50):
        process = Process(GROUP_COORDINATOR, node_id, 1)
        findings.report(process, tuple(Finding(REBALANCE, "g" * 1000, each) for each in range(100)), 0)
    assert len(findings.longest(0)) == SHOWN_MAX
    assert {(each.since_ms < FINDINGS_MAX, len(each.name)) for each in findings.longest(0)} == {(True, FINDING_NAME_LENGTH_MAX)}


def test_a_heartbeat_of_a_version_without_findings_has_none() -> None:
    former = pack(Heartbeat(GROUP_COORDINATOR, 1, 1, 7))[:5]
    assert unpack(Heartbeat, former).findings == ()


async def test_a_controller_hears_of_findings_by_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    follower: Any = SimpleNamespace(image=ClusterImage())
    detector = FailureDetector(follower, SimpleNamespace(), "this-host", 1, 2_000)  # type: ignore[arg-type]
    answers: list[object] = []
    heartbeat = Heartbeat(GROUP_COORDINATOR, 1, 1, 7, (), (Finding(REBALANCE, "g", 5),))
    detector.heartbeat(SimpleNamespace(body=pack(heartbeat), reply=answers.append))  # type: ignore[arg-type]
    assert detector.long_running() == [LongRunning(REBALANCE, "g", 5)]
    assert len(answers) == 1
