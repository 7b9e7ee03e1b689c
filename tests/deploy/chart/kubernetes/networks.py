"""The network of the nodes: a namespace for each, one with a bridge for the control plane, and a cable to this machine.

    this machine 10.131.0.254 ── bridge of the control plane 10.131.0.1 ── node N 10.131.0.1N ── its pods 10.132.N.0/24

Services have addresses below 10.133.0.0/16, which only nodes and pods reach.
"""

import os
import subprocess
from types import TracebackType

CONTROL_ADDRESS = "10.131.0.1"
PODS, SERVICES = "10.132.0.0/16", "10.133.0.0/16"
_HOST_ADDRESS = "10.131.0.254"
_WIDTH = 24
_IP_FORWARD = "net.ipv4.ip_forward=1"


def node_address(number: int) -> str:
    return f"10.131.0.{10 + number}"


def pod_range(number: int) -> str:
    return f"10.132.{number}.0/24"


class Networks:
    """Use as a context manager. Only one can exist on a machine."""

    def __init__(self, nodes: int) -> None:
        self._numbers = range(1, nodes + 1)
        self._cable = f"pk{os.getpid() % 100_000}"

    def inside_control(self) -> list[str]:
        """The command that runs what follows it in the namespace of the control plane."""
        return _inside("penstock-k8s-control")

    def inside_node(self, number: int) -> list[str]:
        return _inside(f"penstock-k8s-{number}")

    def __enter__(self) -> "Networks":
        try:
            self._add_control()
            for number in self._numbers:
                self._add_node(number)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _add_control(self) -> None:
        name = "penstock-k8s-control"
        _run(f"ip netns add {name}")
        _run(f"ip -n {name} link set lo up")
        _run(f"ip -n {name} link add nodes type bridge")
        _run(f"ip -n {name} address add {CONTROL_ADDRESS}/{_WIDTH} dev nodes")
        _run(f"ip -n {name} link set nodes up")
        _run(f"ip link add {self._cable} type veth peer name machine netns {name}")
        _run(f"ip -n {name} link set machine master nodes up")
        _run(f"ip address add {_HOST_ADDRESS}/{_WIDTH} dev {self._cable}")
        _run(f"ip link set {self._cable} up")
        self._route_pods(["ip", "-n", name], among=self._numbers)
        self._route_pods(["ip"], among=self._numbers)

    def _add_node(self, number: int) -> None:
        name = f"penstock-k8s-{number}"
        _run(f"ip netns add {name}")
        _run(f"ip -n {name} link set lo up")
        _run(f"ip -n {name} link add eth0 type veth peer name node-{number} netns penstock-k8s-control")
        _run(f"ip -n penstock-k8s-control link set node-{number} master nodes up")
        _run(f"ip -n {name} address add {node_address(number)}/{_WIDTH} dev eth0")
        _run(f"ip -n {name} link set eth0 up")
        _run(f"ip -n {name} route add default via {CONTROL_ADDRESS}")
        _run(f"{' '.join(self.inside_node(number))} sysctl -q -w {_IP_FORWARD}")
        self._route_pods(["ip", "-n", name], among=[other for other in self._numbers if other != number])

    def _route_pods(self, ip: list[str], among: "range | list[int]") -> None:
        for number in among:
            _run(f"{' '.join(ip)} route add {pod_range(number)} via {node_address(number)}")

    def _remove(self) -> None:
        for name in (*(f"penstock-k8s-{number}" for number in self._numbers), "penstock-k8s-control"):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=30)
        subprocess.run(["ip", "link", "delete", self._cable], check=False, capture_output=True, timeout=30)


def _inside(name: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{name}"]


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, encoding="utf-8", timeout=30)
    assert done.returncode == 0, f"{command}: {done.stderr}"
