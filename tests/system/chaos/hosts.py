"""A cluster of which every process has a host of its own: a network namespace, with a cable to a router that this process is in.

What goes from one host to another can be dropped by the router, each way for itself. Nothing but iproute2 is needed, no firewall.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.local.cluster_plan import ProcessPlan
from services.local.cluster_shape import HOST
from tests.support.cluster_harness import LocalCluster

RPC_PORT = 7000
ROUTER = "10.77.0.1"
"""Clients in this process come from here, to whichever host: gateways deal broker ids out by the address of a client."""
INSIDE = "PENSTOCK_CHAOS_ROUTER"


def run_as_router(module: str, arguments: Sequence[str]) -> int:
    """Runs a Python module in a new network namespace, where `Hosts` can be used."""
    command = ["unshare", "--net", sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode


def is_router() -> bool:
    return INSIDE in os.environ


class Hosts:
    """Use as a context manager, in a namespace of which nobody else makes use."""

    def __init__(self, names: Sequence[str]) -> None:
        self.address = {name: f"10.77.{number}.2" for number, name in enumerate(names, 1)}
        self._names = {name: f"penstock-{os.getpid()}-{name}" for name in names}

    def inside(self, name: str) -> list[str]:
        """The command that runs what follows it on this host."""
        return ["nsenter", f"--net=/run/netns/{self._names[name]}"]

    def __enter__(self) -> "Hosts":
        try:
            _ip("link", "set", "lo", "up")
            _ip("address", "add", f"{ROUTER}/32", "dev", "lo")
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")
            for number, name in enumerate(self._names, 1):
                self._add(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, number: int, name: str) -> None:
        space, cable, router = self._names[name], f"to-{number}", f"10.77.{number}.1"
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("address", "add", f"{router}/24", "dev", cable)
        _ip("link", "set", cable, "up")
        _ip("route", "replace", f"10.77.{number}.0/24", "dev", cable, "src", ROUTER)
        _ip("-n", space, "address", "add", f"{self.address[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        _ip("-n", space, "route", "add", "default", "via", router)

    def __exit__(self, *_: object) -> None:
        for space in self._names.values():
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, timeout=30, check=False)

    @contextmanager
    def dropped(self, pairs: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Nothing gets from the first of each pair to the second, and neither is told."""
        with contextlib.ExitStack() as mended:
            for one, other in pairs:
                rule = ("from", self.address[one], "to", self.address[other], "blackhole")
                _ip("rule", "add", *rule)
                mended.callback(_ip, "rule", "delete", *rule)
            yield


class HostedCluster(LocalCluster):
    """Its processes speak TCP with one another, as between machines. `hosts` are there for every process of this shape."""

    def __init__(
        self,
        hosts: Hosts,
        directory: Path,
        *,
        storage: int,
        gateways: int,
        controllers: int,
        coordinators: int,
        environment_of: Mapping[str, Mapping[str, str]],
    ) -> None:
        super().__init__(
            directory,
            storage=storage,
            gateways=gateways,
            controllers=controllers,
            coordinators=coordinators,
            environment_of=environment_of,
        )
        self._hosts = hosts
        self.alter_plans(self._moved)

    @property
    def bootstrap(self) -> str:
        gateways = [name for name in self.names if name.startswith("gateway")]
        ports = [self.shape.bootstrap_port(number) for number in range(1, len(gateways) + 1)]
        return ",".join(f"{self._hosts.address[name]}:{port}" for name, port in zip(gateways, ports, strict=True))

    def _moved(self, plan: ProcessPlan) -> ProcessPlan:
        address = self._hosts.address[plan.name]
        environment = {name: value.replace(HOST, address) for name, value in plan.environment.items()}
        if plan.role == "etcd":
            argv = [word.replace(HOST, address) for word in plan.argv]
        else:
            argv = list(plan.argv)
            environment["PENSTOCK_ETCD"] = plan.environment["PENSTOCK_ETCD"].replace(HOST, self._hosts.address["etcd"])
            environment["PENSTOCK_ADMIN_HOST"] = address
            environment["PENSTOCK_HOST_ID"] = plan.name
            if plan.role == "gateway":
                environment["PENSTOCK_LISTEN_HOST"] = environment["PENSTOCK_ADVERTISED_HOST"] = address
            if environment.pop("PENSTOCK_RPC_UNIX", None) is not None:
                environment["PENSTOCK_RPC_TCP"] = f"{address}:{RPC_PORT}"
        command = (*self._hosts.inside(plan.name), *argv)
        return dataclasses.replace(plan, argv=command, environment=environment, probe_host=address)


def why_no_hosts() -> str | None:
    """The reason why this machine cannot have such hosts."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    try:
        done = subprocess.run(["unshare", "--net", "ip", "rule", "add", "from", "10.77.1.2", "blackhole"], capture_output=True)
    except FileNotFoundError as error:
        return f"{error.filename} is not here"
    return None if done.returncode == 0 else f"no routing rules: {done.stderr.decode().strip()}"


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, encoding="utf-8", timeout=30)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
