"""A class data archive of Kafka's brokers and tools: a JVM that has it starts in half the time."""

import fcntl
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.ports import reserve_ports

if TYPE_CHECKING:
    from tests.compat.kafka.jars import KafkaJars

PROGRAM = Path(__file__).parent / "ArchivedClasses.java"
SILENT = "-Xlog:disable"  # a JVM that cannot use an archive goes on without it: no tool's output shall say so
MADE_WITHIN_S = 300.0
C1_ONLY = "-XX:TieredStopAtLevel=1"
BRIEF = (C1_ONLY, "-XX:+UseSerialGC")
"""For a JVM that lives for seconds: it never gets back what its second compiler and a second collector spend."""


def archive_options(jars: "KafkaJars") -> tuple[str, ...]:
    """The JVM's options that use the archive. The first process that asks makes it, and others wait."""
    archive = jars.directory.parent / "classes.jsa"
    if not holds_for(archive, jars.stamp, PROGRAM):
        with open(archive.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not holds_for(archive, jars.stamp, PROGRAM):
                _make(archive, jars)
    return (f"-XX:SharedArchiveFile={archive}", SILENT) if archive.stat().st_size else ()


def _make(archive: Path, jars: "KafkaJars") -> None:
    """Leaves an empty file if it fails: JVMs start without an archive, too. `test_tool_server.py` has a test that tells."""
    new = archive.with_suffix(".new")
    new.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory, ExitStack() as stack:
        reservation = reserve_ports(2)
        stack.callback(reservation.release)
        broker, controller = (f"127.0.0.1:{reservation.first + number}" for number in range(2))
        properties = Path(directory, "server.properties")
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{directory}/data",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        command = jars.command(
            str(PROGRAM),
            *(str(properties), broker, directory),
            heap="1g",
            options=(*BRIEF, f"-XX:ArchiveClassesAtExit={new}", SILENT),
        )
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=MADE_WITHIN_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            new.unlink(missing_ok=True)
    new.touch()
    new.rename(archive)


def holds_for(archive: Path, *files: Path) -> bool:
    """An archive holds for the very files that it was made of, and for the JVM that made it."""
    java = shutil.which("java")
    if java is None or not archive.exists():
        return False
    made = archive.stat().st_mtime
    return all(made > max(file.stat().st_mtime, file.stat().st_ctime) for file in (*files, Path(java).resolve()))
