"""A single Apache Kafka broker in KRaft's combined mode."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.compat.kafka.archives import C1_ONLY
from tests.compat.kafka.jars import SHARED, KafkaJars
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT

CLUSTER_ID = "cGVuc3RvY2stdGVzdHMtMQ"  # any 16 bytes in base64url
STORAGE_TOOL = "kafka.tools.StorageTool"
READY_WITHIN_S = 120.0
LOG_TAIL_BYTES = 6000
QUICK = (C1_ONLY, SHARED)
"""Options for a broker that nobody measures: it starts in half the time."""
API_VERSIONS_V0 = bytes.fromhex("0012 0000 00000001 ffff")  # api 18, version 0, correlation 1, no client id


class KafkaBroker:
    """Use as a context manager. The heap is that of Kafka's own start script."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "1g",
        options: tuple[str, ...] = (),
        root: Path = ROOT,
    ) -> None:
        self.directory = directory
        self._reservation = reserve_ports(2)
        self.port = port or self._reservation.first
        self._controller_port = self._reservation.first + 1
        self.properties = dict(properties or {})
        """They come after ours, so they win. What is changed here holds from the next start on."""
        self._heap = heap
        self._options = options
        self._jars = KafkaJars(root)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def log_directory(self) -> Path:
        return self.directory / "data"

    def start(self) -> "KafkaBroker":
        """Formats if that was not done before, starts, returns when the broker answers ApiVersions."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self.all_properties().items()), encoding="utf-8")
        if not (self.log_directory / "meta.properties").exists():
            quick = (*QUICK, "-XX:+UseSerialGC")
            format_it = self._jars.command(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-c", str(config), options=quick)
            subprocess.run(format_it, check=True, capture_output=True, timeout=120)
        with open(self.directory / "broker.log", "ab") as log:
            command = self._jars.command("kafka.Kafka", str(config), heap=self._heap, options=("-XX:+UseG1GC", *self._options))
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self._wait_ready()
        return self

    def stop(self, *, number: int = signal.SIGTERM) -> None:
        """Ends the process; the data stays, and `start()` may follow."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=60)
        self._process = None

    def close(self) -> None:
        self.stop()
        self._reservation.release()

    def __enter__(self) -> "KafkaBroker":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def log(self) -> str:
        return (self.directory / "broker.log").read_text(errors="replace", encoding="utf-8")

    def all_properties(self) -> dict[str, str]:
        """The content of server.properties."""
        controller = f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }

    def _wait_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN_S
        while not _answers(self.port):
            assert self._process.poll() is None, f"Kafka ended while starting:\n{self.log()[-LOG_TAIL_BYTES:]}"
            assert time.monotonic() < deadline, f"Kafka is not ready after {READY_WITHIN_S} s:\n{self.log()[-LOG_TAIL_BYTES:]}"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.05)


def _answers(port: int) -> bool:
    """Whether the broker answers a request. Its listener is open from early on, before it serves."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as connection:
            connection.sendall(len(API_VERSIONS_V0).to_bytes(4, "big") + API_VERSIONS_V0)
            return len(connection.recv(8)) == 8
    except OSError:
        return False
