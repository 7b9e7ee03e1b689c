"""Every block of docs/use/quick-start.md runs as it stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED, TOOLS
from tests.support.requirements import ROOT, require

PAGE = (ROOT / "docs" / "use" / "quick-start.md").read_text()
TIMEOUT_S = 180.0


def blocks(section: str, language: str) -> str:
    """The one block of that language in a section of the page."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0], re.DOTALL)
    return str(found)


def run(bootstrap: str, text: str, *command: str, path: str = "") -> str:
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    script = text.replace("127.0.0.1:9092", bootstrap)
    done = subprocess.run([*command, script], capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.parametrize(
    ("section", "record"), [("confluent-kafka", "payment"), ("aiokafka", "visit"), ("kafka-python", "click")]
)
def test_a_python_client_reads_what_it_wrote(bootstrap: str, section: str, record: str) -> None:
    printed = run(bootstrap, blocks(section, "python"), sys.executable, "-c").splitlines()
    assert sorted(line.split(maxsplit=2)[2] for line in printed) == [f"{record} {number}" for number in range(3)]


def test_kcat_writes_reads_and_lists(bootstrap: str) -> None:
    require("kcat")
    printed = run(bootstrap, f"set -e\n{blocks('kcat', 'bash')}", "bash", "-c")
    assert printed.splitlines()[:10] == [f"line {number}" for number in (1, 2, 3, 4, 5)] * 2
    assert 'topic "lines" with 1 partitions' in printed


def test_the_console_tools_write_read_and_describe(bootstrap: str, tmp_path: Path) -> None:
    require("java", "kafka")
    jars = KafkaJars(ROOT)
    for tool, main_class in TOOLS.items():
        script = tmp_path / f"{tool}.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(jars.command(main_class, options=SHORT_LIVED))} "$@"\n')
        script.chmod(0o755)
    text = blocks("Kafka's console tools", "bash")
    printed = run(bootstrap, f"set -e\n{text}", "bash", "-c", path=str(tmp_path))
    assert "Created topic orders." in printed
    assert "order 1" in printed.splitlines()
    assert re.search(r"^billing +orders +\d +1 +1 +0 ", printed, re.MULTILINE)
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: retention.ms=86400000" in printed
