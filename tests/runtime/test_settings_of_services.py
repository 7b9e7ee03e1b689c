"""Each service says in one line what is wrong with its settings."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from libs.runtime import process
from libs.runtime.service_config import ServiceConfig
from libs.runtime.setting_names import NAMES, unknown
from services.local.__main__ import OF_TESTS, known_settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("service", ["controller", "gateway", "group_coordinator", "storage"])
def test_a_service_without_its_settings_says_which_and_exits(service: str) -> None:
    ended = subprocess.run([sys.executable, "-m", f"services.{service}"], cwd=ROOT, env={}, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == (f"{service}: PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)\n")


def test_the_names_of_all_settings_are_those_of_the_page() -> None:
    page = known_settings(ROOT) - set(OF_TESTS)
    assert {f"PENSTOCK_{name.upper()}" for name in NAMES} == page
    assert list(unknown([*page, *OF_TESTS, "HOME"])) == []


def test_a_process_warns_of_a_variable_that_no_service_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process.logs, "configure", lambda *arguments: None)
    for name, value in (("NODE_ID", "1"), ("ETCD", "h:1"), ("DATA_DIR", "/d"), ("LOG_DIR", "/l"), ("RACK", "a"), ("QQQ", "1")):
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    with caplog.at_level(logging.WARNING):
        process.read_config(ServiceConfig, "storage")
    assert caplog.messages == ["there is no such setting"] * 2
    told = [record.__dict__["fields"] for record in caplog.records]
    assert [(line["variable"], line["did_you_mean"]) for line in told] == [
        ("PENSTOCK_LOG_DIR", "PENSTOCK_LOG_DIRS"),
        ("PENSTOCK_QQQ", ""),
    ]
