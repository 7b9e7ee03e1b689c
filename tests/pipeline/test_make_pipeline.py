"""`make pipeline`, as the README prints it: twice in a row, and again after `make wipe`, on a cluster with TLS, users and ACLs.

Its folder has no data, but this checkout's environments and tools, so that nothing is downloaded.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from services.local.cluster_shape import PORTS_PER_GATEWAY
from services.pipeline.lake.table import read_table
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT

VISITS, BROKEN = 20_000, 5
WITHIN_S = 600.0
NOISE = re.compile(r"WARN|ERROR|Exception|Traceback|^\s+at |log4j|%\d\|")
"""Of Spark's JVM, of stacks, and of librdkafka."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """What `make pipeline` needs of this checkout, and no data. The name has spaces."""
    fresh = tmp_path / "no data yet"
    fresh.mkdir()
    for name in ("Makefile", "services", "libs", ".tools", ".venv", "pyproject.toml", "constraints.txt"):
        (fresh / name).symlink_to(ROOT / name)
    yield fresh
    make(fresh, "wipe")


@pytest.fixture
def first_port() -> Iterator[int]:
    reserved = reserve_ports(PORTS_PER_GATEWAY)
    yield reserved.first
    reserved.release()


def make(folder: Path, target: str, *settings: str) -> list[str]:
    """The lines of the terminal. Fails if make does."""
    without_make = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    command = ["make", target, *settings]
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=without_make, encoding="utf-8", start_new_session=True, **piped) as running:
        try:
            said, _ = running.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    assert running.returncode == 0, said[-3000:]
    return said.splitlines()


@pytest.mark.timeout(1300)
def test_the_example_fills_its_lake_goes_on_and_begins_anew(spark: SparkSession, folder: Path, first_port: int) -> None:
    port = f"PORT={first_port}"
    for visits in (VISITS, 2 * VISITS):
        said = make(folder, "pipeline", port)
        assert said[-1] == "packages: done"
        assert "visits: done" in said
        assert [line for line in said if NOISE.search(line)] == []
        refuse_another_lake(spark, folder, said, visits)
    make(folder, "wipe")
    assert not (folder / ".run" / "pipeline").exists()
    refuse_another_lake(spark, folder, make(folder, "pipeline", port, "SECURITY=on"), VISITS)


def refuse_another_lake(spark: SparkSession, folder: Path, said: list[str], visits: int) -> None:
    """Looks at what the jobs have made."""
    lake = folder / ".run" / "pipeline" / "lake"
    packages = int(next(line for line in said if line.startswith("wrote ")).split()[1])
    assert read_table(spark, str(lake / "visits")).count() == visits
    assert read_table(spark, str(lake / "visits_dead_letters")).count() == visits // VISITS * BROKEN
    rows = read_table(spark, str(lake / "packages")).select("key", "value", "parsed.name", "parsed.version").collect()
    assert len(rows) == packages
    for row in rows:
        found = json.loads(row.value)
        assert (row.name, row.version) == (found["name"], found["version"])
        assert bytes(row.key).decode() == row.name
