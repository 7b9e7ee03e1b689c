"""The look of a coordinator at what takes too long: bounded, seldom, and harmless to heartbeats."""

from collections.abc import Iterable, Iterator

import pytest

from libs.coordinator.process.findings import LOOK_S, Findings, finding
from libs.rpc.contracts.controller import FINDING_NAME_LENGTH_MAX, FINDINGS_MAX, Finding


def test_the_longest_are_told_and_looked_for_once_in_a_while() -> None:
    now, looks = 100.0, 0

    def collect() -> Iterator[Finding]:
        nonlocal looks
        looks += 1
        return (finding("rebalance", f"g{since_ms}", since_ms) for since_ms in range(30, 0, -1))

    findings = Findings(collect, lambda: now)
    for later in (0.0, 0.3, 0.6):
        now = 100.0 + later
        assert [each.since_ms for each in findings.newest()] == list(range(1, FINDINGS_MAX + 1))
    assert looks == 1
    now = 100.0 + LOOK_S
    findings.newest()
    assert looks == 2


def test_a_look_that_fails_harms_no_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    def collect() -> Iterable[Finding]:
        raise KeyError("a fault")

    assert Findings(collect, lambda: 0.0).newest() == ()
    assert "failed" in caplog.text


def test_a_name_is_cut() -> None:
    assert len(finding("rebalance", "g" * 10_000, 1).name) == FINDING_NAME_LENGTH_MAX
