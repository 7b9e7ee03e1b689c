"""The commands that a page prints, run as they stand there.

A page's `sh` blocks assume port 9092 and the folder `.run`. `PrintedCommands` runs them on a cluster of its own: ports keep their
distance from 9092, and other paths are given by `places`.
"""

import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from services.local.run_directory import RunDirectory
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS
from tests.support.ports import reserve_ports
from tests.support.printed_blocks import PRINTED_PORT, blocks_of, section_of
from tests.support.requirements import ROOT

PORTS = 200
"""As many as two gateways take."""
WITHIN_S = 240.0


class PrintedCommands:
    """Runs the blocks of one page, in one cluster or none. `tools`: Kafka's tools, by their names without `.sh`."""

    def __init__(self, page: Path, directory: Path, first_port: int, tools: Iterable[str], places: Mapping[str, str]) -> None:
        self._page = page
        self._first_port = first_port
        self._places = {".run": str(directory / "run"), **places}
        self.run_directory = RunDirectory(directory / "run")
        self._bin = directory / "bin"
        self._bin.mkdir()
        self._write_script(
            "make", ["/usr/bin/env", f"PATH={os.environ['PATH']}", "make", f"RUN={self.run_directory.path}", f"PORT={first_port}"]
        )
        jars = KafkaJars(ROOT)
        for tool in tools:
            self._write_script(f"{tool}.sh", jars.command(TOOLS[tool], options=TOOL))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._first_port}"

    def section(self, section: str, *, page: Path | None = None) -> str:
        """Runs a section, and returns what it printed. Fails the test at the first command that fails. `page`: another page."""
        own = section_of((page or self._page).read_text(encoding="utf-8"), section)
        commands = "".join(block.text for block in blocks_of(own) if block.language == "sh")
        assert commands, f"{page or self._page}: {section} has no command"
        return self.sh(commands)

    def save(self, name: str, text: str) -> None:
        """Writes a file that the page has its reader save, at the place that was given for it."""
        Path(self._places[name]).write_text(self._placed(text), encoding="utf-8")

    def sh(self, script: str) -> str:
        """Runs a script of the test's own in the same surroundings."""
        path = f"{self._bin}:{ROOT / '.venv' / 'bin'}:{ROOT / '.tools' / 'etcd'}:{os.environ['PATH']}"
        # Files, not pipes: what the script starts in the background may outlive it.
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as printed,
            tempfile.TemporaryFile("w+", encoding="utf-8") as complaints,
        ):
            done = subprocess.run(
                ["sh", "-eu", "-c", self._placed(script)],
                cwd=ROOT,
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complaints,
                timeout=WITHIN_S,
            )
            texts = [_content(printed), _content(complaints)]
        assert done.returncode == 0, f"{script}\n{texts[0][-3000:]}\n{texts[1][-3000:]}"
        return texts[0]

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends a signal to a process of the cluster, and waits until it is down."""
        self.sh(f"kill -{number.value} $(cat .run/pids/{name}.pid)")
        self.sh(f"until make -s status | grep -q '{name} .* down '; do sleep 0.3; done")

    def _placed(self, script: str) -> str:
        def port(found: re.Match[str]) -> str:
            return str(int(found[0]) - PRINTED_PORT + self._first_port)

        script = re.sub(r"\b9(?:09[2-9]|1\d\d|2[0-8]\d|29[01])\b", port, script)
        for printed, real in self._places.items():
            script = re.sub(rf"(?<![\w./]){re.escape(printed)}(?![\w.])", real, script)
        return script

    def _write_script(self, name: str, command: list[str]) -> None:
        script = self._bin / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


def _content(file: TextIO) -> str:
    file.seek(0)
    return file.read()


@contextmanager
def printed_commands(
    page: Path, directory: Path, *, tools: Iterable[str] = (), places: Mapping[str, str] | None = None
) -> Iterator[PrintedCommands]:
    """At the end the cluster is wiped, and programs that the page started in the background are stopped."""
    reservation = reserve_ports(PORTS)
    commands = PrintedCommands(page, directory, reservation.first, tools, places or {})
    try:
        yield commands
    finally:
        if commands.run_directory.holds_cluster():
            commands.sh("make wipe")
        _stop_background(directory)
        reservation.release()


def _stop_background(directory: Path) -> None:
    """Ends processes that name the directory in their arguments."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.fsencode(directory) in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
