"""The launcher's commands on a run directory of their own, as `make` runs them, and Kafka's brokers beside it."""

import subprocess
from pathlib import Path

from tests.compat.kafka.broker import KafkaBroker
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL
from tests.support.launcher import run_launcher
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require


class Launcher:
    """Use as a context manager: the cluster is wiped at the end."""

    def __init__(self, run: Path) -> None:
        require("etcd")
        self._run = run
        self._reservation = reserve_ports(100)
        self.bootstrap = f"127.0.0.1:{self._reservation.first}"

    def __call__(self, command: str, *arguments: str, succeeds: bool = True) -> str:
        """What it said."""
        port = [f"--port={self._reservation.first}"] if command in ("up", "from-kafka") else []
        return run_launcher(self._run, command, *port, *arguments, succeeds=succeeds, timeout_s=240)

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self("wipe")
        self._reservation.release()


def format_beside(directory: Path, cluster_id: str, properties: dict[str, str], broker: KafkaBroker) -> None:
    """Formats the metadata.log.dir of a Kafka whose log.dirs have been used, by `kafka-storage.sh format`."""
    config = directory / "format.properties"
    config.write_text(
        "".join(f"{name}={value}\n" for name, value in {**broker.all_properties(), **properties}.items()), encoding="utf-8"
    )
    arguments = ("format", "--ignore-formatted", "--cluster-id", cluster_id, "--config", str(config))
    command = KafkaJars(ROOT).command("kafka.tools.StorageTool", *arguments, options=TOOL)
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
