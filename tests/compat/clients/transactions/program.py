"""A program of Java that runs as a process of its own."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.polling import WITHIN_S


class Program:
    """Use as a context manager: at the end it is killed. What it writes goes to files, so a busy test does not hold it up. Its
    standard input is open until then."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        directory.mkdir()
        self._command = command
        self._stdout, self._stderr = directory / "stdout", directory / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._stdout, "wb") as stdout, open(self._stderr, "ab") as stderr:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, start_new_session=True
            )

    def say(self, line: str) -> None:
        """Writes a line to its standard input. Fails if it has ended."""
        self.expect_running()
        stdin = self._live().stdin
        assert stdin is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()

    def lines(self) -> list[str]:
        """What it has written to stdout since its last start, without a line that is not yet whole."""
        return self._stdout.read_text(encoding="utf-8").split("\n")[:-1]

    def expect_running(self) -> None:
        assert self._live().poll() is None, self.story()

    def has_ended(self) -> bool:
        """Whether it has done its work. Fails if it ended otherwise."""
        code = self._live().poll()
        assert code in (None, 0), self.story()
        return code == 0

    def kill(self) -> None:
        """SIGKILL, amid its work: fails if it had ended before."""
        assert self._killed(self._live()) == -signal.SIGKILL, self.story()
        self._process = None

    def stop(self) -> None:
        """SIGSTOP. It has no time until `go_on`."""
        self.expect_running()
        self._live().send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._live().send_signal(signal.SIGCONT)

    def story(self) -> str:
        """The end of its output, for a failure's text."""
        said = "\n".join(self.lines()[-10:])
        return f"stdout:\n{said}\nstderr:\n{self._stderr.read_text(errors='replace', encoding='utf-8')[-4000:]}"

    @staticmethod
    def _killed(process: subprocess.Popen[bytes]) -> int:
        """Returns its exit code."""
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        return process.wait(WITHIN_S)

    def _live(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def __enter__(self) -> "Program":
        self.start()
        return self

    def end(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None:
            self._killed(self._process)

    def __exit__(self, *_: object) -> None:
        self.end()
