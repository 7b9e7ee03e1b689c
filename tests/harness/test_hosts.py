"""Hosts of their own for a cluster's processes: what the router drops does not arrive, and all else does."""

import subprocess
import sys

from tests.support.requirements import require
from tests.system.chaos.hosts import Hosts, is_router, run_as_router, why_no_hosts

PORT = 7001


def test_packets_dropped_one_way_do_not_arrive_and_the_other_way_goes_on() -> None:
    require("root")
    assert why_no_hosts() is None
    assert run_as_router("tests.harness.test_hosts", []) == 0


def deliver(hosts: Hosts, sender: str, receiver: str) -> bool:
    """Whether a datagram from the one arrives at the other before a later one that the other sends itself."""
    hears = "import socket as s; u = s.socket(2, 2); u.bind((%r, %d)); print('ready', flush=True); print(u.recv(9).decode())"
    says = "import socket as s; s.socket(2, 2).sendto(%r, (%r, %d))"
    where = (hosts.address[receiver], PORT)
    command = [*hosts.inside(receiver), sys.executable, "-c", hears % where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as ear:
        assert ear.stdout is not None
        assert ear.stdout.readline() == "ready\n"
        for host in (sender, receiver):
            say = [*hosts.inside(host), sys.executable, "-c", says % (host.encode(), *where)]
            subprocess.run(say, check=True, timeout=60)
        return ear.communicate(timeout=60)[0] == f"{sender}\n"


def main() -> int:
    assert is_router()
    with Hosts(["a", "b", "c"]) as hosts:
        assert deliver(hosts, "a", "b")
        with hosts.dropped([("a", "b")]):
            assert not deliver(hosts, "a", "b")
            assert deliver(hosts, "b", "a")
            assert deliver(hosts, "a", "c")
        assert deliver(hosts, "a", "b")
    return 0


if __name__ == "__main__":
    sys.exit(main())
