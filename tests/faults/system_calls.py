"""What a running process asks of the kernel, by strace: to look at it, or to make it fail."""

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.requirements import require

_WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)\) += +(-?\d+|\?)(.*)$")
_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += +(-?\d+|\?)(.*)$")


@dataclass(frozen=True)
class SystemCall:
    """In the order of their returns. `file` is what its first argument, a descriptor, stands for."""

    name: str
    arguments: str
    result: int

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
        command = ["strace", "-f", "-yy", "-s", "16", "-o", str(output), *options, "-p", str(pid)]
        strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert strace.stderr is not None
        said = strace.stderr.readline()
        assert "attached" in said, said + strace.stderr.read()
        try:
            yield trace
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=30)
            trace.calls = list(_parse(output.read_text(errors="replace")))


def _parse(text: str) -> Iterator[SystemCall]:
    begun: dict[str, str] = {}
    for line in text.splitlines():
        if found := _WHOLE.match(line):
            yield SystemCall(found[2], found[3], _number(found[4]))
        elif found := _BEGUN.match(line):
            begun[found[1]] = found[3]
        elif found := _ENDED.match(line):
            yield SystemCall(found[2], begun.pop(found[1], "") + found[3], _number(found[4]))


def _number(text: str) -> int:
    return -1 if text == "?" else int(text)
