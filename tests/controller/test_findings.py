"""What coordinators find takes too long reaches a controller with their heartbeats, and ends with them."""

from types import SimpleNamespace
from typing import Any

import pytest

from libs.cluster.health import MARKERS, REBALANCE, SHOWN_MAX, LongRunning
from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR
from libs.rpc.contracts.controller import FINDING_NAME_LENGTH_MAX, FINDINGS_MAX, Finding, Heartbeat
from libs.rpc.messages.errors import Denied
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.server.call import Peer
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
    sender = Peer(GROUP_COORDINATOR, 1, 1, "test", 1, "c", None, "somewhere", 1)
    detector.heartbeat(SimpleNamespace(body=pack(heartbeat), peer=sender, reply=answers.append))  # type: ignore[arg-type]
    assert detector.long_running() == [LongRunning(REBALANCE, "g", 5)]
    assert len(answers) == 1


@pytest.mark.parametrize(
    "heartbeat",
    [Heartbeat(GROUP_COORDINATOR, 2, 1, 7), Heartbeat(GROUP_COORDINATOR, 1, 2, 7), Heartbeat(STORAGE, 1, 1, 7)],
    ids=["another node", "another incarnation", "another role"],
)
async def test_a_heartbeat_in_the_name_of_another_process_counts_for_nobody(heartbeat: Heartbeat) -> None:
    follower: Any = SimpleNamespace(image=ClusterImage())
    detector = FailureDetector(follower, SimpleNamespace(), "this-host", 1, 2_000)  # type: ignore[arg-type]
    sender = Peer(GROUP_COORDINATOR, 1, 1, "test", 1, "c", None, "somewhere", 1)
    with pytest.raises(Denied, match="group_coordinator 1 in incarnation 1 speaks for"):
        detector.heartbeat(SimpleNamespace(body=pack(heartbeat), peer=sender))  # type: ignore[arg-type]
    assert detector.debug()["heard"] == []  # type: ignore[index]
