"""HOST= of `make up`: the address by which other machines reach the gateways of this one."""

import re
import socket
from collections.abc import Mapping

from services.local import processes
from services.local.cluster import Cluster
from services.local.cluster_shape import HOST
from services.local.errors import LauncherError
from services.local.host_names import ANY, ANY_IPV6, NAME, is_ipv6
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST

LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+")
LOOPBACK_IPV6 = "::1"
EXPECTED = "expected the name or address by which clients reach this machine, without a port"
CONNECT_S = 2.0


def settings_for(host: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of gateways that HOST= stands for. `given`: the environment. Raises LauncherError."""
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if host in (ANY, ANY_IPV6) or not (NAME.fullmatch(host) or is_ipv6(host)):
        raise LauncherError(f"HOST={host}: {EXPECTED}")
    settings = {LISTEN_HOST: _listen_host(host), ADVERTISED_HOST: host}
    for variable, value in settings.items():
        if given.get(variable, value) != value:
            raise LauncherError(f"HOST={host} and {variable}={given[variable]} contradict each other: give one of them")
    return settings


def _listen_host(host: str) -> str:
    """Raises LauncherError."""
    if LOOPBACK.fullmatch(host):
        return HOST
    try:
        families = {family for family, *_ in socket.getaddrinfo(host, None)}
    except OSError:
        raise LauncherError(f"HOST={host} has no address on this machine; {EXPECTED}") from None
    if host == LOOPBACK_IPV6:
        return host
    if socket.AF_INET in families and (socket.AF_INET6 not in families or not socket.has_dualstack_ipv6()):
        return ANY  # a kernel without IPv6 has no sockets for it, whatever addresses the name has
    return ANY_IPV6


def refuse_running_elsewhere(cluster: Cluster, host: str) -> None:
    """Raises LauncherError if a gateway runs already, and with another address."""
    for name, plan in cluster.plans.items():
        if not plan.has_gateway or (pid := cluster.pid_of(name)) is None:
            continue
        if (now := processes.environment(pid).get(ADVERTISED_HOST, HOST)) != host:
            raise LauncherError(f"{name} runs with HOST={now}; `make down` first to have HOST={host}")


def unreachable(bootstrap_servers: str) -> list[str]:
    """Those addresses that programs on this machine cannot connect to."""
    found = []
    for address in bootstrap_servers.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        except OSError:
            found.append(address)
    return found
