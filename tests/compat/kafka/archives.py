"""Class data archives of Kafka's main classes: with one, the next start of that class takes half as long."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.compat.kafka.jars import KafkaJars

SILENT = "-Xlog:disable"  # a JVM that cannot use an archive goes on without it: no tool's output shall say so


@contextmanager
def archived(jars: KafkaJars, main_class: str) -> Iterator[tuple[str, ...]]:
    """The JVM's options for one run of that class, which uses its archive, or leaves one. A killed JVM leaves none."""
    archive = jars.directory.parent / "archives" / f"{main_class}.jsa"
    if _is_of_these(archive, jars):
        yield (f"-XX:SharedArchiveFile={archive}", SILENT)
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another run is leaving it
            yield ()
            return
        left = archive.with_suffix(".new")
        left.unlink(missing_ok=True)
        yield (f"-XX:ArchiveClassesAtExit={left}", SILENT)
        if left.exists():
            left.rename(archive)


def _is_of_these(archive: Path, jars: KafkaJars) -> bool:
    """An archive holds for the very files that it was made of, and for the JVM that made it."""
    java = shutil.which("java")
    if java is None or not archive.exists() or not jars.are_here():
        return False
    made = archive.stat().st_mtime
    return all(made > max(file.stat().st_mtime, file.stat().st_ctime) for file in (jars.stamp, Path(java).resolve()))
