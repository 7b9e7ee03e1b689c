"""The files of SECURITY=on: an authority, the gateways' certificate, the first user, and what clients need to connect.

Making them takes a library, so `python -m libs.local_security` does it.
"""

import json
from collections.abc import Callable
from pathlib import Path

from services.local import etcd_protection, protection
from services.local.cluster import Cluster
from services.local.cluster_shape import HOST
from services.local.first_users import SETTING
from services.local.host_names import with_port
from services.local.recovery import add_users, run_module
from services.local.run_directory import ADVERTISED_HOST

MODULE = "libs.local_security"
FORMER_CLIENTS = (
    "clients of before are refused from now on: each needs the settings of client.properties, with a user and ACLs of its own "
    "(docs/security.md, Users of such a cluster)"
)
LOST_PASSWORD = (
    "warning: the password of admin is lost with {folder}/first-users: put a copy back, or give the cluster another user "
    "(docs/security.md, A lost password)"
)
ANOTHER_AUTHORITY = (
    "warning: {folder}/ca.key was lost, so another authority has signed the gateways' certificate: clients do not trust it until "
    "they have the new {folder}/ca.pem"
)
LOST_AUTHORITY = (
    "warning: {folder}/etcd-ca.key is lost, or is not that of etcd-ca.pem, and the etcd that runs trusts no other authority: put "
    "a copy back, or `make down`, then `make up` makes all certificates of etcd anew"
)


def make(cluster: Cluster, *, python: Path, root: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Makes what lacks, renews what ends soon, and returns the settings of controllers that name the first user. A cluster that
    began without SECURITY=on gets that user."""
    run = cluster.run
    begins_now = protection.begins_now(run, cluster.shape)
    is_new = begins_now or not protection.has_begun(run)
    if not renew(cluster, is_new=is_new, python=python, root=root, say=say):
        return {}
    first_users = run.security / "first-users"
    if begins_now:
        add_users(cluster, first_users, python=python, root=root, say=say)
        say(FORMER_CLIENTS)
    return {SETTING: str(first_users)}


def renew(cluster: Cluster, *, is_new: bool = False, python: Path, root: Path, say: Callable[[str], None]) -> bool:
    """Makes what lacks, and renews what ends soon: of the gateways, of etcd and its users. What runs reads it by itself. Returns
    whether the first user's password is known. `is_new`: there is none yet."""
    run = cluster.run
    listeners = cluster.listeners(starting=cluster.names_down())
    hosts = {name: settings.get(ADVERTISED_HOST, HOST) for name, settings in listeners.items()}
    servers = [with_port(host, cluster.shape.bootstrap_port(number)) for number, host in enumerate(hosts.values(), 1)]
    arguments = [str(run.security), "--bootstrap-servers", ",".join(servers)]
    arguments += [f"--host={host}" for host in sorted(set(hosts.values()))]
    arguments += [f"--etcd-user={user}" for user in etcd_protection.USERS]
    if etcd_protection.runs_with_tls(run):
        arguments.append("--etcd-runs")
    if is_new:
        arguments.append("--new")
    made = json.loads(run_module(MODULE, arguments, python=python, root=root))
    if made["is_another_authority"]:
        say(ANOTHER_AUTHORITY.format(folder=run.security))
    elif made["renewed"]:
        say("a new certificate takes the place of one that was to end, or lacked a name; gateways that run read it by themselves")
    if not made["knows_etcd_authority"]:
        say(LOST_AUTHORITY.format(folder=run.security))
    if not made["knows_password"]:
        say(LOST_PASSWORD.format(folder=run.security))
    return bool(made["knows_password"])


def for_clients(cluster: Cluster) -> list[str]:
    """How clients connect, in a few lines."""
    folder = cluster.run.security
    return [
        "SECURITY=on: clients need TLS, and the user admin or one that admin makes (docs/security.md)",
        f"  trust: {folder}/ca.pem",
        f"  Java and Kafka's tools: {folder}/client.properties, as in --command-config {folder}/client.properties",
        f"  librdkafka: {folder}/kcat.conf, as in kcat -F {folder}/kcat.conf -L",
        f'  admin ports: {folder}/admin-token, as in curl -H "Authorization: Bearer $(cat {folder}/admin-token)"',
    ]
