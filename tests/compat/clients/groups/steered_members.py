"""Members of groups that do as a test says: many in one process, each alone in a group of its name."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.compat.clients.groups.builds import PROGRAMS
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL
from tests.support.requirements import ROOT, require

STEERED = PROGRAMS / "steered"


class SteeredMembers:
    """A process of members. `client`: java or librdkafka. Use as a context manager: at the end the process is killed."""

    def __init__(self, client: str, bootstrap: str, log: Path) -> None:
        self._bootstrap = bootstrap
        with open(log, "ab") as stderr:
            self._process = subprocess.Popen(_command(client), stdin=subprocess.PIPE, stderr=stderr, encoding="utf-8")

    def open(self, group: str, *topics: str, protocol: str, session_ms: int, max_poll_interval_ms: int) -> None:
        """A member that joins `group`. All these return at once."""
        self._say("open", group, protocol, str(session_ms), str(max_poll_interval_ms), self._bootstrap, *topics)

    def subscribe(self, group: str, *topics: str) -> None:
        self._say("subscribe", group, *topics)

    def unsubscribe(self, group: str) -> None:
        self._say("unsubscribe", group)

    def hang(self, group: str) -> None:
        """The member polls no more. Its heartbeats go on."""
        self._say("hang", group)

    def close(self, group: str) -> None:
        self._say("close", group)

    def stop(self) -> None:
        """SIGSTOP, to all members in this process."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it was told last
            self._stdin.close()

    def _say(self, *words: str) -> None:
        print(*words, file=self._stdin, flush=True)

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def __enter__(self) -> "SteeredMembers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()


def _command(client: str) -> list[str]:
    match client:
        case "librdkafka":
            return [sys.executable, str(STEERED / "librdkafka_members.py")]
        case "java":
            require("java", "kafka")
            return KafkaJars(ROOT).command(str(STEERED / "JavaMembers.java"), options=TOOL)
        case _:
            raise AssertionError(client)
