"""Each service says in one line what is wrong with its settings."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("service", ["controller", "gateway", "group_coordinator", "storage"])
def test_a_service_without_its_settings_says_which_and_exits(service: str) -> None:
    ended = subprocess.run([sys.executable, "-m", f"services.{service}"], cwd=ROOT, env={}, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr == (f"{service}: PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)\n")
