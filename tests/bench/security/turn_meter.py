"""A service whose event loop notes its longest turn: `python -m tests.bench.security.turn_meter FILE SERVICE`.

A turn is what the loop's thread does between two looks for events, in CPU time. The file is shared with whoever reads and
restarts it (`Turns`).
"""

import mmap
import runpy
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path
from selectors import SelectorKey

from libs.rpc.transport import event_loop
from services.local.cluster_plan import ProcessPlan

LAYOUT = struct.Struct("dQ")
"""The longest turn in seconds, and the number of turns."""


class Turns:
    """What the file says. Its process must have been started with it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def create(self) -> None:
        self._file.write_bytes(bytes(LAYOUT.size))

    def restart(self) -> None:
        with open(self._file, "r+b") as shared:
            shared.write(bytes(LAYOUT.size))

    def longest_ms(self) -> float:
        """Since the last restart. Raises ValueError if there was no turn: the process does not measure."""
        longest_s, turns = LAYOUT.unpack(self._file.read_bytes())
        if not turns:
            raise ValueError(f"no turn was noted in {self._file}")
        return float(longest_s) * 1000


def metered(plan: ProcessPlan, file: Path) -> ProcessPlan:
    """The same process, which notes its turns."""
    python, mark, _, service = plan.argv
    return replace(plan, argv=(python, mark, "-m", __name__, str(file), service))


class MeteredSelector(event_loop.SendingSelector):
    """It notes the turn that ends when the loop looks for events. What was sent before belongs to that turn."""

    shared: mmap.mmap
    _began = 0.0

    def events(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        longest, turns = LAYOUT.unpack(self.shared)
        LAYOUT.pack_into(self.shared, 0, max(longest, time.thread_time() - self._began if self._began else 0.0), turns + 1)
        found = super().events(timeout)
        self._began = time.thread_time()
        return found


def main(file: str, service: str) -> None:
    with open(file, "r+b") as opened:
        MeteredSelector.shared = mmap.mmap(opened.fileno(), LAYOUT.size)
    event_loop.SendingSelector = MeteredSelector  # type: ignore[misc]
    sys.argv = [service]
    runpy.run_module(service, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
