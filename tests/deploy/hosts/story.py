"""The story of three hosts and a client, played in a network of its own: `run_as_router` starts it.

The hosts are set up by the page's own commands. One host is cut off, and all processes of another are killed, while a client
produces. At the end a group reads all that was acknowledged, each record once, and every process stops when it is told to.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from services.local.probe import ask
from services.local.systemd.hosts import ADMIN_ABOVE_RPC, ETCD_CLIENT, RPC_PORTS
from tests.compat.clients.admin import Admin
from tests.deploy.health_sentence import is_healthy
from tests.deploy.hosts.client import PARTITIONS
from tests.deploy.hosts.machine import Machine, machines
from tests.deploy.hosts.page import block_with, command_with
from tests.support.polling import Pending, eventually
from tests.support.requirements import ROOT
from tests.system.chaos.hosts import ROUTER, Hosts, is_router

PAGE = "docs/operate/three-hosts.md"
ON_PAGE = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
NAMES = ("one", "two", "three")
CLIENT = "client"
TOPIC = "orders"
RECORDS = 5
"""So many more of each partition show that the cluster goes on."""


class Clients:
    """Programs on the fourth host."""

    def __init__(self, hosts: Hosts, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self._inside = hosts.inside(CLIENT)
        self._acknowledged = directory / "acknowledged"

    def _argv(self, *words: str) -> list[str]:
        return [*self._inside, sys.executable, "-m", "tests.deploy.hosts.client", *words]

    def run(self, action: str, *more: str) -> list[list[object]]:
        argv = self._argv(action, self.bootstrap, TOPIC, *more)
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def shell(self, command: str) -> str:
        argv = [*self._inside, "sh", "-c", command]
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @contextmanager
    def producing(self) -> Iterator[None]:
        with open(self._acknowledged, "w", encoding="utf-8") as output:
            process = subprocess.Popen(self._argv("produce", self.bootstrap, TOPIC), cwd=ROOT, stdout=output)
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) == 0, "the producer failed"
        finally:
            process.kill()
            process.wait()

    def acknowledged(self) -> list[list[object]]:
        return [
            json.loads(line)
            for line in self._acknowledged.read_text(encoding="utf-8").splitlines(keepends=True)
            if line.endswith("\n")
        ]

    def goes_on(self) -> float:
        """Returns when each partition has acknowledged some records more: the seconds that it took."""
        begun = time.monotonic()
        wanted = {partition: count + RECORDS for partition, count in self._counts().items()}

        def behind() -> dict[object, int]:
            counts = self._counts()
            return {partition: counts[partition] - count for partition, count in wanted.items() if counts[partition] < count}

        eventually(lambda: not behind() or Pending(behind()))
        return time.monotonic() - begun

    def _counts(self) -> Counter[object]:
        counts = Counter(dict.fromkeys(range(PARTITIONS), 0))
        counts.update(partition for _, partition, _ in self.acknowledged())
        return counts


def health(machine: Machine, token: str = "") -> str:
    """As the controller of this host tells it; why not, if it tells nothing."""
    _, said = ask(RPC_PORTS["controller"] + ADMIN_ABOVE_RPC, "/health", timeout_s=2.0, host=machine.address, token=token)
    return str(json.loads(said)["sentence"]) if said.startswith("{") else said


def has_joined(machine: Machine) -> bool:
    is_ready, _ = ask(RPC_PORTS["storage"] + ADMIN_ABOVE_RPC, "/readyz", timeout_s=2.0, host=machine.address)
    return is_ready


def all_healthy(cluster: Sequence[Machine], token: str = "") -> None:
    """The controllers say so, and each storage node has joined: at the first start nobody misses one that is yet to come."""

    def healths() -> dict[str, str]:
        assert not (dead := {machine.name: machine.ended() for machine in cluster if machine.ended()}), dead
        return {
            machine.name: health(machine, token) if has_joined(machine) else "its storage node is not ready"
            for machine in cluster
        }

    eventually(lambda: all(map(is_healthy, (seen := healths()).values())) or Pending(seen))


def addressed(text: str, hosts: Hosts) -> str:
    """The page's text with the addresses of these hosts."""
    for printed, name in zip(ON_PAGE, NAMES, strict=True):
        text = text.replace(printed, hosts.address[name])
    return text.replace("10.0.0.9", ROUTER).replace("10.0.0.0/16", "10.77.0.0/16")


def set_up(machine: Machine, hosts: Hosts, printed: str = "--host 10.0.0.1 --clients") -> None:
    """By the page's own command and firewall. `printed`: the words that tell the command from others."""
    command = addressed(command_with(PAGE, printed), hosts)
    here = command.replace(f"--host {hosts.address[NAMES[0]]}", f"--host {machine.address}")
    machine.run(f"{here} --into {machine.root}")
    firewall = machine.root / "etc/penstock/firewall.nft"
    assert firewall.read_text(encoding="utf-8").strip() == addressed(block_with(PAGE, "table inet penstock"), hosts).strip()
    machine.run(command_with(PAGE, "sudo nft -f").replace("/etc/penstock", str(firewall.parent)))


def says_hello(clients: Clients, hosts: Hosts) -> None:
    """A message gets through by the page's commands."""
    for words in ("kcat -P", "kcat -C"):
        said = clients.shell(addressed(command_with(PAGE, words), hosts))
    assert said.splitlines() == ["1", "2", "3", "4", "5"], said


def closed_to_clients(clients: Clients, machine: Machine) -> None:
    for port in (ETCD_CLIENT, RPC_PORTS["storage"], RPC_PORTS["controller"] + ADMIN_ABOVE_RPC):
        refused = clients.shell(f"bash -c 'exec 2>&1; ! : </dev/tcp/{machine.address}/{port}'")
        assert "refused" in refused, refused


def play(hosts: Hosts, directory: Path) -> None:
    begun = time.monotonic()

    def note(words: str) -> None:
        print(f"{time.monotonic() - begun:5.1f} s: {words}", flush=True)

    with machines(NAMES, hosts, directory) as cluster:
        one, two, three = cluster
        for machine in cluster:
            set_up(machine, hosts)
        for machine in cluster:
            machine.start()
        all_healthy(cluster)
        note("three hosts are healthy")
        clients = Clients(hosts, ",".join(f"{machine.address}:9092" for machine in cluster), directory)
        says_hello(clients, hosts)
        closed_to_clients(clients, two)
        note("a message got through, and the firewall keeps the rest closed")
        Admin(clients.bootstrap).create(TOPIC, PARTITIONS, replicas=3)
        with clients.producing():
            clients.goes_on()
            others = [one.name, two.name, CLIENT]
            with hosts.dropped([*((three.name, other) for other in others), *((other, three.name) for other in others)]):
                note(f"host three is cut off, and all partitions go on after {clients.goes_on():.1f} s")
            all_healthy(cluster)
            note("host three is back")
            one.kill()
            note(f"the processes of host one are killed, and all partitions go on after {clients.goes_on():.1f} s")
            one.start()
            all_healthy(cluster)
            note("host one is back")
            clients.goes_on()
        acknowledged = clients.acknowledged() + clients.run("transact")
        read = clients.run("consume", str(len(acknowledged)))
        missing, surplus = Counter(map(str, acknowledged)), Counter(map(str, read))
        assert not missing - surplus, f"acknowledged and not there: {missing - surplus}"
        assert not surplus - missing, f"there and not acknowledged, or twice: {surplus - missing}"
        note(f"{len(acknowledged)} records were acknowledged, and read once each")
        stop(cluster)
        note("all have stopped")


def stop(cluster: Sequence[Machine]) -> None:
    with ThreadPoolExecutor() as pool:
        bad = [words for found in pool.map(Machine.stop, cluster) for words in found]
    assert not bad, bad


def main(play: Callable[[Hosts, Path], None] = play) -> int:
    assert is_router()
    with tempfile.TemporaryDirectory(prefix="penstock-hosts-") as directory, Hosts([*NAMES, CLIENT]) as hosts:
        try:
            play(hosts, Path(directory))
        except BaseException:
            for log in sorted(Path(directory).glob("*/*.log")):
                print(f"--- {log}\n{log.read_text(errors='replace', encoding='utf-8')[-3000:]}", flush=True)
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
