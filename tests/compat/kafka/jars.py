"""Gets Apache Kafka's jars by Maven, once."""

import fcntl
import hashlib
import subprocess
from pathlib import Path

from tests.compat.kafka.archives import archive_options

HERE = Path(__file__).parent
BROKER = HERE / "pom.xml"
CONNECT = HERE / "connect.xml"
COMPACTION_TESTER = HERE / "compaction-tester.xml"
MIRROR = HERE / "mirror.xml"
STREAMS = HERE / "streams.xml"
SHARED = "-Xshare:auto"
"""The option of a JVM that takes classes from archives."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class KafkaJars:
    """The jars that a POM names: broker and tools in .tools/kafka/libs, those of `connect.xml` in .tools/kafka-connect/libs."""

    def __init__(self, root: Path, pom: Path = BROKER) -> None:
        here = root / ".tools" / ("kafka" if pom == BROKER else f"kafka-{pom.stem}")
        self.directory = here / "libs"
        self.stamp = here / "pom.sha256"
        self._lock = here / "lock"
        self._pom = pom

    def are_here(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self._fingerprint()

    def ensure(self) -> Path:
        """Returns the folder. Takes seconds to a minute the first time; test processes that start together share one download."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with open(self._lock, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.are_here():
                argv = ["mvn", "-q", "-B", "-f", str(self._pom), COPY, f"-DoutputDirectory={self.directory}"]
                result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=600)
                assert result.returncode == 0, f"Maven failed: {(result.stdout + result.stderr)[-2000:]}"
                self.stamp.write_text(self._fingerprint(), encoding="utf-8")
        return self.directory

    def command(self, main_class: str, *arguments: str, heap: str = "256m", options: tuple[str, ...] = ()) -> list[str]:
        """A command line for one of Kafka's main classes; log4j2 says no more than warnings. With SHARED among the options,
        brokers and tools have an archive of their classes."""
        jars = self.ensure()
        archive = archive_options(self) if SHARED in options and self._pom == BROKER else ()
        return [
            "java",
            f"-Xmx{heap}",
            *options,
            *archive,
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
            "-cp",
            f"{jars}/*",
            main_class,
            *arguments,
        ]

    def _fingerprint(self) -> str:
        return hashlib.sha256(self._pom.read_bytes()).hexdigest()
