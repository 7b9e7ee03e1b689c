"""The files of SECURITY=on: an authority, the gateways' certificate, the first user, and what clients need to connect.

Making them takes a library, so `python -m libs.local_security` does it.
"""

import json
from collections.abc import Callable
from pathlib import Path

from services.local import protection
from services.local.cluster import Cluster
from services.local.cluster_shape import HOST
from services.local.first_users import SETTING
from services.local.host_names import with_port
from services.local.recovery import run_module
from services.local.run_directory import ADVERTISED_HOST

MODULE = "libs.local_security"
LOST_PASSWORD = (
    "warning: the password of admin is lost with {folder}/first-users: put a copy back, or give the cluster another user "
    "(docs/security.md, A lost password)"
)


def make(cluster: Cluster, *, python: Path, root: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Makes what lacks, renews what ends soon, and returns the settings of controllers that name the first user."""
    run = cluster.run
    listeners = cluster.listeners(starting=cluster.names_down())
    hosts = {name: settings.get(ADVERTISED_HOST, HOST) for name, settings in listeners.items()}
    servers = [with_port(host, cluster.shape.bootstrap_port(number)) for number, host in enumerate(hosts.values(), 1)]
    arguments = [str(run.security), "--bootstrap-servers", ",".join(servers)]
    arguments += [f"--host={host}" for host in sorted(set(hosts.values()))]
    if not protection.has_begun(run):
        arguments.append("--new")
    made = json.loads(run_module(MODULE, arguments, python=python, root=root))
    if made["renewed"]:
        say("a new certificate takes the place of one that was to end, or lacked a name; gateways that run read it by themselves")
    if not made["knows_password"]:
        say(LOST_PASSWORD.format(folder=run.security))
        return {}
    return {SETTING: str(run.security / "first-users")}


def for_clients(cluster: Cluster) -> list[str]:
    """How clients connect, in a few lines."""
    folder = cluster.run.security
    return [
        "SECURITY=on: clients need TLS, and the user admin or one that admin makes (docs/security.md)",
        f"  trust: {folder}/ca.pem",
        f"  Java and Kafka's tools: {folder}/client.properties, as in --command-config {folder}/client.properties",
        f"  librdkafka: {folder}/kcat.conf, as in kcat -F {folder}/kcat.conf -L",
    ]
