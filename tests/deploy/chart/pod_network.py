"""A network of pods on this machine: a namespace for each, a bridge that joins them, and one for the node. Takes root."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK = 0x4000_0000
NODE_ADDRESS = "10.99.0.1"


class PodNetwork:
    """Use as a context manager. Addresses are below 10.99.0.0/16, which exists in these namespaces only."""

    def __init__(self) -> None:
        self._prefix = f"pk{os.getpid() % 100_000}"
        self._namespaces: list[str] = []
        self.node = f"{self._prefix}n"

    def __enter__(self) -> "PodNetwork":
        _ip(f"netns add {self.node}")
        self._namespaces.append(self.node)
        _ip(
            f"-n {self.node} link set lo up",
            f"-n {self.node} link add name pods type bridge",
            f"-n {self.node} address add {NODE_ADDRESS}/16 dev pods",
            f"-n {self.node} link set pods up",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in reversed(self._namespaces):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=30)

    def add(self, address: str) -> str:
        """A namespace that has this address. Returns its name."""
        name = f"{self._prefix}-{len(self._namespaces)}"
        port = f"v{len(self._namespaces)}"
        _ip(f"netns add {name}")
        self._namespaces.append(name)
        _ip(
            f"link add {port} netns {self.node} type veth peer name eth0 netns {name}",
            f"-n {self.node} link set {port} master pods up",
            f"-n {name} link set lo up",
            f"-n {name} address add {address}/16 dev eth0",
            f"-n {name} link set eth0 up",
        )
        return name

    def add_to_node(self, address: str) -> None:
        _ip(f"-n {self.node} address add {address}/16 dev pods")

    def node_threads(self, count: int) -> ThreadPoolExecutor:
        """Threads whose sockets, and those of their threads, are in the node's namespace."""
        return ThreadPoolExecutor(count, thread_name_prefix="node", initializer=_enter(self.node))


def _ip(*commands: str) -> None:
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, encoding="utf-8", timeout=30)
        assert done.returncode == 0, f"ip {command}: {done.stderr}"


def _enter(namespace: str) -> Callable[[], None]:
    def enter() -> None:
        with open(f"/run/netns/{namespace}", encoding="utf-8") as file:
            assert _LIBC.setns(file.fileno(), _NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())

    return enter
