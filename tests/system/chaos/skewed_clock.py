"""Runs a service whose wall clock can be set wrong while it runs: `python -m tests.system.chaos.skewed_clock services.storage`.

The file that PENSTOCK_CHAOS_CLOCK names holds by how many milliseconds, as eight bytes; whoever writes them moves the clock.
"""

import dataclasses
import mmap
import os
import runpy
import struct
import sys
from pathlib import Path

from libs.clock import SystemClock, WallMs
from services.local.cluster_plan import ProcessPlan

WHERE = "PENSTOCK_CHAOS_CLOCK"
_OFFSET = struct.Struct("<q")


def with_odd_clock(plan: ProcessPlan, directory: Path) -> ProcessPlan:
    """The same process with a clock that `set_clock` moves; etcd keeps the machine's."""
    if plan.role == "etcd":
        return plan
    file = directory / f"{plan.name}.clock"
    file.write_bytes(_OFFSET.pack(0))
    module = plan.argv.index("-m")
    argv = (*plan.argv[: module + 1], "tests.system.chaos.skewed_clock", *plan.argv[module + 1 :])
    return dataclasses.replace(plan, argv=argv, environment={**plan.environment, WHERE: str(file)})


def set_clock(directory: Path, name: str, ahead_ms: int) -> None:
    with open(directory / f"{name}.clock", "r+b") as file:
        file.write(_OFFSET.pack(ahead_ms))


def main() -> None:
    with open(os.environ[WHERE], "rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    right = SystemClock.wall_ms

    def wall_ms(clock: SystemClock) -> WallMs:
        return WallMs(right(clock) + _OFFSET.unpack(offset[:])[0])

    SystemClock.wall_ms = wall_ms  # type: ignore[method-assign, assignment]
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
