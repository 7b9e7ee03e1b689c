"""A client's steady producer or consumer, a process of its own, and what it told. programs/stream_lines.py has the lines."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.compat.clients.groups.builds import franz_go_member, node_modules
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.requirements import ROOT

PROGRAMS = Path(__file__).parent / "programs"
ENDED_WITHIN_S = 90.0
SAID_MAX = 4000
"""The characters of a client's error that are shown."""

Started = tuple[list[str], Mapping[str, str]]
"""A command, and its environment."""


class ClientEnded(Exception):
    """A client's process that ended by itself, with what it said at last."""


class Stream:
    """Use as a context manager. The lines go to a file, so that a busy bench holds no client up. `read` takes in the new ones."""

    def __init__(self, client: str, mode: str, arguments: Sequence[str], directory: Path) -> None:
        self.client, self.mode = client, mode
        self.times_us: list[int] = []
        """When each record was acknowledged or received."""
        self.sequences: list[int] = []
        self.offsets: list[int] = []
        """Of received records."""
        self.failures: list[str] = []
        command, environment = (COMMANDS | PROBES)[client]()
        directory.mkdir()
        self._file, self._stderr = directory / "lines", directory / "stderr"
        with open(self._file, "wb") as lines, open(self._stderr, "wb") as stderr:
            self._process = subprocess.Popen(
                [*command, mode, *arguments], stdin=subprocess.DEVNULL, stdout=lines, stderr=stderr, env=environment or None
            )
        self._read_to = 0
        self._rest = b""

    def read(self) -> None:
        with open(self._file, "rb") as file:
            file.seek(self._read_to)
            news = file.read()
        self._read_to += len(news)
        *lines, self._rest = (self._rest + news).split(b"\n")
        for line in lines:
            kind, sequence, at_us, *more = line.split()
            if kind == b"f":
                self.failures.append(b" ".join([sequence, *more]).decode())
                continue
            self.times_us.append(int(at_us))
            self.sequences.append(int(sequence))
            if kind == b"r":
                self.offsets.append(int(more[0]))

    def expect_running(self) -> None:
        """Raises ClientEnded, with the beginning of the client's own error: nothing would follow any more."""
        if self._process.poll() is not None:
            said = self._stderr.read_text(encoding="utf-8")
            raise ClientEnded(f"{self.client} {self.mode} ended with {self._process.returncode}: {said[:SAID_MAX]}")

    def has_received(self, offset: int) -> bool:
        self.read()
        return bool(self.offsets) and max(self.offsets) >= offset

    def end(self) -> None:
        """SIGTERM: a producer sends what it has, first."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDED_WITHIN_S)
            if self._process.poll() is None:
                self._process.kill()
        self._process.wait()
        self.read()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def __repr__(self) -> str:
        said = self._stderr.read_text(encoding="utf-8")[-300:]
        return f"{self.client} {self.mode}: {len(self.times_us)}, {self.failures[:3]}, {said}"


def _of_python(program: str) -> Callable[[], Started]:
    return lambda: ([sys.executable, str(PROGRAMS / program)], {})


def _of_java() -> Started:
    return KafkaJars(ROOT).command(str(PROGRAMS / "JavaStream.java"), options=SHORT_LIVED), {}


def _of_kafkajs() -> Started:
    node = ["env", f"NODE_PATH={node_modules()}", "node"]
    return [*node, str(PROGRAMS / "kafkajs_stream.cjs")], {}


def _of_franz_go() -> Started:
    return [str(franz_go_member()), "stream"], {}


COMMANDS: dict[str, Callable[[], Started]] = {
    "librdkafka": _of_python("librdkafka_stream.py"),
    "java": _of_java,
    "kafka-python": _of_python("kafka_python_stream.py"),
    "aiokafka": _of_python("aiokafka_stream.py"),
    "franz-go": _of_franz_go,
    "kafkajs": _of_kafkajs,
}
MACHINE = "machine"
PROBES: dict[str, Callable[[], Started]] = {MACHINE: _of_python("machine_stream.py")}
"""They use no cluster."""
