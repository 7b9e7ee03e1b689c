"""TRACE lines about groups: each decision, without what members and clients say."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.tables import Journal
from libs.telemetry.level_switches import Switches
from libs.telemetry.log_levels import set_level
from services.group_coordinator.telemetry.group_decision_log import GroupDecisionLog
from tests.group_coordinator.conversion.stage import Stage


class LoggedStage(Stage):
    def make(self, journal: Journal) -> Any:
        return ObservedMachine(super().make(journal), journal, lambda events, now_ms: None, GroupDecisionLog())


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    yield
    logging.getLogger("groups").setLevel(logging.NOTSET)
    Switches.look()


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in caplog.records if record.message == "group decision"]


def test_each_request_of_a_rebalance_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    set_level("groups", "TRACE", "the test")
    LoggedStage().classic_group("t")
    told = lines(caplog)
    assert {"JoinGroup", "SyncGroup"} <= {line.get("request") for line in told}
    assert {line["group"] for line in told if "request" in line} == {"g"}
    joins = [line for line in told if line.get("request") == "JoinGroup"]
    assert any(line["parks"] for line in joins), "a member waits for the others"
    shown = {name for line in told for name in line}
    kept = {
        "request",
        "version",
        "group",
        "member_id",
        "client_id",
        "client_host",
        "records",
        "parks",
        "wakes",
        "errors",
        "timer",
    }
    assert shown <= kept


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_without_trace_there_is_none(level: str, caplog: pytest.LogCaptureFixture) -> None:
    set_level("groups", level, "the test")
    LoggedStage().classic_group("t")
    assert lines(caplog) == []
