"""The story of three hosts with certificates and a token, as the page's own commands make them. `run_as_router` starts it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from services.local.probe import ask
from services.local.systemd.hosts import ADMIN_ABOVE_RPC, ETCD_CLIENT, RPC_PORTS
from tests.deploy.hosts.machine import Machine, machines
from tests.deploy.hosts.page import block_with, command_with
from tests.deploy.hosts.story import NAMES, PAGE, Clients, addressed, all_healthy, main, says_hello, set_up, stop
from tests.system.chaos.hosts import Hosts


def make_certificates(hosts: Hosts, directory: Path) -> None:
    """Those of all hosts, and a token, by the page's commands."""
    directory.mkdir()
    command = addressed(block_with(PAGE, "sign root root"), hosts)
    subprocess.run(["bash", "-euc", command], cwd=directory, check=True, capture_output=True, timeout=120)


def bring_certificates(machine: Machine, hosts: Hosts, directory: Path) -> None:
    target = machine.root / "etc/penstock"
    for words in ("sudo mkdir -p /etc/penstock", "sudo cp -r 10.0.0.1/certificates"):
        command = addressed(command_with(PAGE, words), hosts).replace(hosts.address[NAMES[0]], machine.address)
        subprocess.run(command.replace("/etc/penstock", str(target)), shell=True, cwd=directory, check=True, timeout=60)


def set_users_up(machine: Machine, hosts: Hosts, directory: Path) -> None:
    """root's files are on this host for so long only."""
    command = addressed(command_with(PAGE, "etcd_users set-up"), hosts)
    for name in ("root.crt", "root.key"):
        command = command.replace(name, str(directory / name))
    assert "etcd serves users only: penstock-controller" in machine.run(command)


def closed_to_strangers(cluster: Sequence[Machine], token: str) -> None:
    """Even on a host that the firewall lets in."""
    one, two, _ = cluster
    trust = "--cacert /etc/penstock/certificates/ca.crt"
    url = f"https://{one.address}:{ETCD_CLIENT}/version"
    own = "--cert /etc/penstock/certificates/storage.crt --key /etc/penstock/certificates/storage.key"
    assert "etcdserver" in two.run(f"curl --silent {trust} {own} {url}")
    for port in (ETCD_CLIENT, RPC_PORTS["storage"]):
        # A client that sends anything may get a reset in place of the alert: in TLS 1.3 it counts itself accepted first.
        connect = f"openssl s_client -connect {one.address}:{port} -CAfile /etc/penstock/certificates/ca.crt -ign_eof"
        shown = two.run(f"{connect} 2>&1 </dev/null || true")
        assert "alert certificate required" in shown, shown
    admin = RPC_PORTS["storage"] + ADMIN_ABOVE_RPC
    assert ask(admin, "/metrics", timeout_s=5.0, host=one.address, token=token)[0]
    answered, said = ask(admin, "/metrics", timeout_s=5.0, host=one.address)
    assert not answered
    assert "send the token" in said, said


def play(hosts: Hosts, directory: Path) -> None:
    made = directory / "authority"
    make_certificates(hosts, made)
    token = (made / "admin-token").read_text(encoding="utf-8").strip()
    with machines(NAMES, hosts, directory) as cluster:
        for machine in cluster:
            bring_certificates(machine, hosts, made)
            set_up(machine, hosts, "--host 10.0.0.1 --secured")
        for machine in cluster:
            machine.start()
        set_users_up(cluster[0], hosts, made)
        all_healthy(cluster, token)
        print("three hosts are healthy", flush=True)
        says_hello(Clients(hosts, ",".join(f"{machine.address}:9092" for machine in cluster), directory), hosts)
        closed_to_strangers(cluster, token)
        print("a message got through, and strangers hear nothing", flush=True)
        cluster[0].kill()
        cluster[0].start()
        all_healthy(cluster, token)
        stop(cluster)


if __name__ == "__main__":
    sys.exit(main(play))
