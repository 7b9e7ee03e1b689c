"""`penstock dev` and the clusters of tests: `python -m tests.bench.development_mode` prints JSON. Run it on a quiet machine."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from penstock.testing import Cluster

from tests.support.process_memory import memory_bytes

RUNS = 20
IDLE_S = 60.0
MIB = 1 << 20


def started() -> "tuple[float, subprocess.Popen[str]]":
    """The seconds from the start of a process to its announcement, and the process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "dev", "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    if not process.stdout.readline().startswith("bootstrap.servers="):
        raise RuntimeError("penstock dev did not start: its reason is on stderr")
    return time.perf_counter() - began, process


def ready_seconds() -> float:
    seconds, process = started()
    with process:
        process.terminate()
    return seconds


def idle_mebibytes(idle_s: float) -> float:
    _, process = started()
    with process:
        time.sleep(idle_s)
        memory = memory_bytes(process.pid)
        process.terminate()
    if memory is None:
        raise RuntimeError("the memory of penstock dev cannot be read")
    return memory / MIB


def fixture_seconds() -> float:
    """From the wish for a cluster to its address, with a warm fork server."""
    began = time.perf_counter()
    with Cluster() as cluster:
        seconds = time.perf_counter() - began
        assert cluster.bootstrap_servers
    return seconds


def sample(measure: Callable[[], float], runs: int) -> dict[str, float]:
    values = [measure() for _ in range(runs)]
    return {"median": round(statistics.median(values), 3), "least": round(min(values), 3), "most": round(max(values), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.development_mode", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_S)
    given = parser.parse_args()
    ready_seconds()  # compiles what is not compiled
    first_fixture_s = fixture_seconds()
    figures = {
        "ready_s": sample(ready_seconds, given.runs),
        "pss_mib": round(idle_mebibytes(given.idle_seconds), 1),
        "first_fixture_s": round(first_fixture_s, 3),
        "fixture_s": sample(fixture_seconds, given.runs),
        "runs": given.runs,
        "idle_s": given.idle_seconds,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
