"""The Python example of the README: it runs in the environment and in the order that the page prints."""

import subprocess
import sys
from pathlib import Path

from penstock.testing import Cluster

from tests.support.printed_blocks import blocks_of
from tests.support.requirements import ROOT


def test_the_python_example_prints_what_it_sent(tmp_path: Path) -> None:
    blocks = [block.text for block in blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))]
    (place,) = [number for number, text in enumerate(blocks) if "from confluent_kafka import" in text]
    assert blocks[place + 1].split("\n")[:2] == ["make setup", ".venv/bin/python greetings.py"]
    with Cluster() as cluster:
        assert "127.0.0.1:9092" in blocks[place]
        program = tmp_path / "greetings.py"
        program.write_text(blocks[place].replace("127.0.0.1:9092", cluster.bootstrap_servers), encoding="utf-8")
        done = subprocess.run([sys.executable, str(program)], capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr
