"""A command that may take long while it gets on: what it says is printed as it comes, and a failure shows all of it."""

import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from tests.support.requirements import ROOT

WAITS = "still waiting"
"""So begin the lines of a launcher that does not get on."""
ENDS_WITHIN_S = 10.0


def run_steadily(argv: Sequence[str], *, step_s: float, environment: Mapping[str, str] | None = None) -> list[str]:
    """The lines that a command says until its end. It fails by its exit code, or if it only says for `step_s` what it waits for.
    All steps together have no limit: their number is the command's own."""
    said: list[str] = []
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    ) as command:
        try:
            assert command.stdout is not None
            code = _run(command, command.stdout, step_s, said)
        finally:
            command.kill()
    assert code == 0, "\n".join([f"{' '.join(argv)} ended with {code}, and said:", *said])
    return said


def _run(command: "subprocess.Popen[str]", output: IO[str], step_s: float, said: list[str]) -> int:
    """Returns the exit code."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(output, lines), daemon=True).start()
    deadline = time.monotonic() + step_s
    while True:
        try:
            line = lines.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            words = f"it got on with nothing for {step_s:.0f} s, and said:"
            raise AssertionError("\n".join([words, *said])) from None
        if line is None:
            return command.wait(ENDS_WITHIN_S)
        print(line, flush=True)
        said.append(line)
        if not line.startswith(WAITS):
            deadline = time.monotonic() + step_s


def _read(output: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    for line in output:
        lines.put(line.rstrip("\n"))
    lines.put(None)
