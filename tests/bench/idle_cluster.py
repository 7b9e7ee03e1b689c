"""The whole default cluster, as `make up` starts it: seconds until it is ready, its memory after an idle minute, and the CPU of
that minute.

`python -m tests.bench.idle_cluster` prints one JSON line. Memory is Pss, so that what processes share counts once. Other load
changes the seconds, the CPU by a tenth, and hardly the memory: take them on a quiet machine. The targets are those of issue 17.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.footprint import idle_megabytes, seconds_of
from tests.support.cluster_harness import LocalCluster

STORAGE = 3
MEMORY_MB_MAX = 350
READY_S_MAX = 2.0


def start_seconds(cluster: LocalCluster, starts: int) -> list[float]:
    """Of a cluster whose dependencies are there. It runs before and afterwards."""
    seconds = []
    for _ in range(starts):
        cluster.stop()
        seconds.append(seconds_of(cluster.up))
    return seconds


def processor_seconds(cluster: LocalCluster) -> float:
    """Of all processes during one more start. It depends less on what else the machine does than the seconds until ready."""
    cluster.stop()
    before = _of_ended_children()
    cluster.up()
    return _of_ended_children() - before + sum(_of_process(cluster.pid(name)) for name in cluster.names)


def _of_ended_children() -> float:
    """The process from which the services were forked is one of them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _of_process(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime (proc(5))


def idle_processor_ms(cluster: LocalCluster, idle: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of CPU in each second of `idle`, by process."""
    before, began = {name: _of_process(cluster.pid(name)) for name in cluster.names}, time.monotonic()
    idle()
    took_s = time.monotonic() - began
    return {name: (_of_process(cluster.pid(name)) - before[name]) * 1000 / took_s for name in cluster.names}


def measure(starts: int, idle_s: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root, LocalCluster(Path(root), storage=STORAGE) as cluster:
        seconds = start_seconds(cluster, starts)
        processor_s = processor_seconds(cluster)
        memory: dict[str, float] = {}
        idle = idle_processor_ms(cluster, lambda: memory.update(idle_megabytes(cluster, idle_s)))
    return {
        "ready_s": {
            "median": round(statistics.median(seconds), 2),
            "best": round(min(seconds), 2),
            "starts": starts,
            "target": READY_S_MAX,
        },
        "processor_s_of_one_start": round(processor_s, 2),
        "pss_mb": {
            "together": round(sum(memory.values()), 1),
            "target": MEMORY_MB_MAX,
            "after_idle_s": idle_s,
            "processes": {name: round(size, 1) for name, size in memory.items()},
        },
        "idle_processor_ms_per_s": {
            "together": round(sum(idle.values()), 1),
            "processes": {name: round(ms, 1) for name, ms in idle.items()},
        },
        "load_average": round(os.getloadavg()[0], 1),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.idle_cluster", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--starts", type=int, default=5, help="how many starts are timed (default 5)")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds until memory is read (default 60)")
    given = parser.parse_args(arguments)
    if given.starts < 1 or given.idle < 0:
        parser.error("--starts takes 1 or more, and --idle 0 or more")
    print(json.dumps(measure(given.starts, given.idle)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
