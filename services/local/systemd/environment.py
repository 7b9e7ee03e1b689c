"""The environment files of a host: what its operator may change."""

from services.local.host_names import is_ipv6, with_port
from services.local.systemd import protection
from services.local.systemd.hosts import ADMIN_ABOVE_RPC, ETCD_CLIENT, ETCD_PEER, RPC_PORTS, Hosts


def environment_files(hosts: Hosts, *, secured: bool = False) -> dict[str, dict[str, str]]:
    """By file name. `common.env` is for every process but etcd."""
    files = {"etcd.env": _etcd(hosts, "https" if secured else "http"), "common.env": _common(hosts)}
    for role in RPC_PORTS:
        files[f"{role.replace('_', '-')}.env"] = _service(hosts, role)
    if secured:
        files["etcd.env"] |= protection.of_etcd()
        files["common.env"] |= protection.of_all_services()
        for role in RPC_PORTS:
            files[f"{role.replace('_', '-')}.env"] |= protection.of_service(role)
    return files


def _etcd(hosts: Hosts, scheme: str) -> dict[str, str]:
    members = ",".join(f"etcd-{number}={scheme}://{with_port(name, ETCD_PEER)}" for number, name in enumerate(hosts.names, 1))
    return {
        "ETCD_NAME": f"etcd-{hosts.node_id}",
        "ETCD_LISTEN_CLIENT_URLS": ",".join(
            f"{scheme}://{with_port(address, ETCD_CLIENT)}" for address in _client_addresses(hosts)
        ),
        "ETCD_ADVERTISE_CLIENT_URLS": f"{scheme}://{with_port(hosts.name, ETCD_CLIENT)}",
        "ETCD_LISTEN_PEER_URLS": f"{scheme}://{with_port(hosts.listen_address, ETCD_PEER)}",
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"{scheme}://{with_port(hosts.name, ETCD_PEER)}",
        "ETCD_INITIAL_CLUSTER": members,
        "ETCD_INITIAL_CLUSTER_TOKEN": "penstock",
        "ETCD_INITIAL_CLUSTER_STATE": "new",
        "ETCD_AUTO_COMPACTION_MODE": "periodic",
        "ETCD_AUTO_COMPACTION_RETENTION": "1h",
        "ETCD_LOG_LEVEL": "warn",
    }


def _client_addresses(hosts: Hosts) -> list[str]:
    """That of this host, and loopback for its operators."""
    own = hosts.listen_address
    return [own] if own == hosts.any_address else [own, "::1" if is_ipv6(own) else "127.0.0.1"]


def _common(hosts: Hosts) -> dict[str, str]:
    return {
        "PENSTOCK_NODE_ID": str(hosts.node_id),
        "PENSTOCK_HOST_ID": hosts.name,
        "PENSTOCK_ETCD": hosts.addresses(ETCD_CLIENT),
        "PENSTOCK_PEERS": hosts.addresses(RPC_PORTS["controller"]),
        "PENSTOCK_RPC_ADVERTISED_HOST": hosts.name,
        "PENSTOCK_ADMIN_HOST": hosts.any_address,
        # glibc gives every thread its own heap by default, which costs tens of MB over all processes.
        "MALLOC_ARENA_MAX": "2",
    }


def _service(hosts: Hosts, role: str) -> dict[str, str]:
    rpc = RPC_PORTS[role]
    settings = {"PENSTOCK_RPC_TCP": with_port(hosts.any_address, rpc), "PENSTOCK_ADMIN_PORT": str(rpc + ADMIN_ABOVE_RPC)}
    if role == "gateway":
        settings |= {
            "PENSTOCK_PORT_BASE": str(hosts.port),
            "PENSTOCK_LISTEN_HOST": hosts.any_address,
            "PENSTOCK_ADVERTISED_HOST": hosts.name,
        }
    if role in ("gateway", "storage") and hosts.rack:
        settings["PENSTOCK_RACK"] = hosts.rack
    return settings
