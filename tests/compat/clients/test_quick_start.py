"""docs/use/quick-start.md runs as it is printed."""

import os
import shlex
from pathlib import Path

import pytest

from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.printed_pages import parse_page, run_page
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "use" / "quick-start.md"
TIMEOUT_S = 240.0


@pytest.fixture
def kafka_tools(tmp_path: Path) -> Path:
    """A folder with Kafka's tools, as the `bin/` of a download has them."""
    require("java", "kafka")
    jars = KafkaJars(ROOT)
    for tool, main_class in TOOLS.items():
        script = tmp_path / "bin" / f"{tool}.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec {shlex.join(jars.command(main_class, options=TOOL))} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return tmp_path / "bin"


def test_kcat_and_the_console_tools_write_read_and_describe(bootstrap: str, kafka_tools: Path, tmp_path: Path) -> None:
    require("kcat")
    environment = {"PATH": f"{kafka_tools}:{os.environ['PATH']}"}
    run_page(parse_page(PAGE.read_text(encoding="utf-8")), tmp_path, bootstrap, timeout_s=TIMEOUT_S, environment=environment)
