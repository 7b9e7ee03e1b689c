"""The system calls of a running process, by strace: to look at them, or to make them fail."""

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.requirements import require

_RESULT = r"(.*)\) += +(-?\d+|\?)(?:.* <([\d.]+)>)?.*$"
_WHOLE = re.compile(r"^(\d+) +([\d.]+) (\w+)\(" + _RESULT)
_BEGUN = re.compile(r"^(\d+) +([\d.]+) (\w+)\((.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"^(\d+) +[\d.]+ <\.\.\. (\w+) resumed>" + _RESULT)


@dataclass(frozen=True)
class SystemCall:
    """A system call. Calls come in the order of their returns.

    `file` is the file of its first argument, a descriptor. Times are seconds of a clock that all processes share.
    """

    name: str
    arguments: str
    result: int
    begun: float
    ended: float

    @property
    def file(self) -> str:
        found = re.match(r"\d+<(.*?)>(?:, |$)", self.arguments)
        return found[1] if found else ""


class Trace:
    """`calls` is complete once the `with` has ended."""

    def __init__(self) -> None:
        self.calls: list[SystemCall] = []

    def of(self, *names: str) -> list[SystemCall]:
        return [call for call in self.calls if call.name in names]


@contextmanager
def traced(pid: int, *options: str) -> Iterator[Trace]:
    """Traces all threads of a process from the first line of the `with` to its last, e.g. with `-e`, `trace=fdatasync`."""
    require("strace")
    trace = Trace()
    with tempfile.TemporaryDirectory(prefix="penstock-strace-") as directory:
        output = Path(directory) / "calls"
        command = ["strace", "-f", "-yy", "-ttt", "-T", "-s", "16", "-o", str(output), *options, "-p", str(pid)]
        strace = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8")
        assert strace.stderr is not None
        said = strace.stderr.readline()
        assert "attached" in said, said + strace.stderr.read()
        try:
            yield trace
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=60)
            trace.calls = list(_parse(output.read_text(errors="replace", encoding="utf-8")))


def _parse(text: str) -> Iterator[SystemCall]:
    begun: dict[str, tuple[float, str]] = {}
    for line in text.splitlines():
        if found := _WHOLE.match(line):
            yield _call(found[3], found[4], found[5], float(found[2]), found[6])
        elif found := _BEGUN.match(line):
            begun[found[1]] = (float(found[2]), found[4])
        elif (found := _ENDED.match(line)) and found[1] in begun:
            at, arguments = begun.pop(found[1])
            yield _call(found[2], arguments + found[3], found[4], at, found[5])


def _call(name: str, arguments: str, result: str, begun: float, took: str | None) -> SystemCall:
    return SystemCall(name, arguments, -1 if result == "?" else int(result), begun, begun + float(took or 0))
