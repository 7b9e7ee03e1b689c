"""The story of `make up HOST=…` and clients on another machine, played in a network of its own: `run_as_router` starts it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from services.local.cluster_shape import PORTS_PER_GATEWAY
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOLS
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT
from tests.system.chaos.hosts import Hosts, is_router

SERVER, CLIENT = "server", "laptop"
LINES = ["one", "two", "three"]


class Place:
    """Runs commands on one of the two machines."""

    def __init__(self, hosts: Hosts, name: str) -> None:
        self._inside = hosts.inside(name)

    def run(self, *argv: str, given: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            [*self._inside, *argv], input=given, cwd=ROOT, env=environment(), capture_output=True, encoding="utf-8", timeout=120
        )
        assert (done.returncode != 0) == fails, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr if fails else done.stdout


def environment() -> dict[str, str]:
    """This process's, without what a `make` or a chaos run gave it."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PENSTOCK_"))}


def play(hosts: Hosts, run: Path, port: int) -> None:
    """`port`: with the 99 behind it no other cluster of this machine has it, in whatever network."""
    server, laptop = Place(hosts, SERVER), Place(hosts, CLIENT)
    address = hosts.address[SERVER]
    make = (f"RUN={run}", f"PORT={port}")
    try:
        said = server.run("make", "up", *make, "STORAGE=2", f"HOST={address}").splitlines()
        assert said[-1] == f"bootstrap.servers={address}:{port}", said
        assert not [line for line in said if line.startswith("warning")], said
        bootstrap = said[-1].partition("=")[2]
        for place, topic in ((laptop, "of-laptop"), (server, "of-server")):
            through_kcat(place, bootstrap, topic)
        through_kcat(server, f"127.0.0.1:{port}", "of-loopback")
        through_librdkafka(laptop, bootstrap)
        through_java(laptop, bootstrap)
        status = server.run("make", "status", *make)
        assert f"kafka {address}:{port}, brokers {address}:{port + 1}-{port + 2}, admin 127.0.0.1:" in status, status
        refused = server.run("make", "up", *make, "HOST=127.0.0.1", fails=True)
        assert f"gateway-1 runs with HOST={address}; `make down RUN={run}` first to have HOST=127.0.0.1" in refused, refused
    finally:
        server.run("make", "wipe", f"RUN={run}")


def through_kcat(place: Place, bootstrap: str, topic: str) -> None:
    place.run("kcat", "-P", "-b", bootstrap, "-t", topic, given="\n".join(LINES))
    said = place.run("kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q")
    assert said.splitlines() == LINES, said


def through_librdkafka(place: Place, bootstrap: str) -> None:
    """A group, a transaction and a consumer, by confluent-kafka."""
    client = (sys.executable, "-m", "tests.deploy.hosts.client")
    place.run(*client, "create", bootstrap, "transfers")
    written = place.run(*client, "transact", bootstrap, "transfers")
    assert place.run(*client, "consume", bootstrap, "transfers", "1") == written


def through_java(place: Place, bootstrap: str) -> None:
    jars = KafkaJars(ROOT)
    topic = ("--bootstrap-server", bootstrap, "--topic", "of-java")
    place.run(*jars.command(TOOLS["kafka-console-producer"], *topic), given="\n".join(LINES))
    consumer = jars.command(TOOLS["kafka-console-consumer"], *topic, "--from-beginning", "--max-messages", "3")
    said = place.run(*consumer)
    assert said.splitlines() == LINES, said


def main() -> int:
    assert is_router()
    with tempfile.TemporaryDirectory(prefix="penstock-up-") as directory, Hosts([SERVER, CLIENT]) as hosts:
        reserved = reserve_ports(PORTS_PER_GATEWAY)
        play(hosts, Path(directory) / "run", reserved.first)
        reserved.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
