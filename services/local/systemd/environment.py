"""The environment files of a host: what its operator may change."""

from services.local.host_names import ANY
from services.local.systemd.hosts import ADMIN_ABOVE_RPC, ETCD_CLIENT, ETCD_PEER, RPC_PORTS, Hosts


def environment_files(hosts: Hosts) -> dict[str, dict[str, str]]:
    """By file name. `common.env` is for every process but etcd."""
    files = {"etcd.env": _etcd(hosts), "common.env": _common(hosts)}
    for role in RPC_PORTS:
        files[f"{role.replace('_', '-')}.env"] = _service(hosts, role)
    return files


def _etcd(hosts: Hosts) -> dict[str, str]:
    members = ",".join(f"etcd-{number}=http://{name}:{ETCD_PEER}" for number, name in enumerate(hosts.names, 1))
    return {
        "ETCD_NAME": f"etcd-{hosts.node_id}",
        "ETCD_LISTEN_CLIENT_URLS": f"http://{ANY}:{ETCD_CLIENT}",
        "ETCD_ADVERTISE_CLIENT_URLS": f"http://{hosts.name}:{ETCD_CLIENT}",
        "ETCD_LISTEN_PEER_URLS": f"http://{ANY}:{ETCD_PEER}",
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"http://{hosts.name}:{ETCD_PEER}",
        "ETCD_INITIAL_CLUSTER": members,
        "ETCD_INITIAL_CLUSTER_TOKEN": "penstock",
        "ETCD_INITIAL_CLUSTER_STATE": "new",
        "ETCD_AUTO_COMPACTION_MODE": "periodic",
        "ETCD_AUTO_COMPACTION_RETENTION": "1h",
        "ETCD_LOG_LEVEL": "warn",
    }


def _common(hosts: Hosts) -> dict[str, str]:
    return {
        "PENSTOCK_NODE_ID": str(hosts.node_id),
        "PENSTOCK_HOST_ID": hosts.name,
        "PENSTOCK_ETCD": hosts.addresses(ETCD_CLIENT),
        "PENSTOCK_PEERS": hosts.addresses(RPC_PORTS["controller"]),
        "PENSTOCK_RPC_ADVERTISED_HOST": hosts.name,
        "PENSTOCK_ADMIN_HOST": ANY,
        # glibc gives every thread its own heap by default, which costs tens of MB over all processes.
        "MALLOC_ARENA_MAX": "2",
    }


def _service(hosts: Hosts, role: str) -> dict[str, str]:
    rpc = RPC_PORTS[role]
    settings = {"PENSTOCK_RPC_TCP": f"{ANY}:{rpc}", "PENSTOCK_ADMIN_PORT": str(rpc + ADMIN_ABOVE_RPC)}
    if role == "gateway":
        settings |= {
            "PENSTOCK_PORT_BASE": str(hosts.port),
            "PENSTOCK_LISTEN_HOST": ANY,
            "PENSTOCK_ADVERTISED_HOST": hosts.name,
        }
    if role in ("gateway", "storage") and hosts.rack:
        settings["PENSTOCK_RACK"] = hosts.rack
    return settings
