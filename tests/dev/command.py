"""`penstock dev` as a process of a test."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

COMMAND = (sys.executable, "-m", "penstock", "dev")
START_S_MAX = 60.0


class Command:
    """A running command that has announced itself. Its stderr is in `log`."""

    def __init__(self, process: subprocess.Popen[str], bootstrap_servers: str, log: Path) -> None:
        self.process = process
        self.bootstrap_servers = bootstrap_servers
        self._log = log

    @property
    def logged(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def end(self, number: signal.Signals) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(START_S_MAX)


@contextmanager
def running(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None, seconds_max: float = START_S_MAX
) -> Iterator[Command]:
    """`penstock dev --port 0` with `arguments`, and its temporary files below `folder`."""
    folder.mkdir(exist_ok=True)
    log = folder / "stderr"
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            env=os.environ | {"TMPDIR": str(folder)} | (environment or {}),
        )
    late = Timer(seconds_max, process.kill)
    late.start()
    try:
        with process:
            assert process.stdout is not None
            announced = re.fullmatch(r"bootstrap\.servers=(\S+)\n", process.stdout.readline())
            assert announced is not None, log.read_text(encoding="utf-8")
            yield Command(process, announced[1], log)
            process.kill()
    finally:
        late.cancel()
        process.kill()


def refused(*arguments: str) -> str:
    """What the command says instead of starting."""
    ended = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, encoding="utf-8", timeout=START_S_MAX, stdin=subprocess.DEVNULL
    )
    assert ended.returncode != 0
    assert ended.stdout == ""
    return ended.stderr
