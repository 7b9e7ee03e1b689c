"""The hosts of a cluster, each with one process of every role, and the ports of those."""

import re
from dataclasses import dataclass

from services.local.errors import LauncherError
from services.local.host_names import ANY, ANY_IPV6, NAME, is_address, is_ipv6, with_port

ETCD_CLIENT, ETCD_PEER = 2379, 2380
RPC_PORTS = {
    "controller": 7101,
    "storage": 7102,
    "group_coordinator": 7103,
    "transaction_coordinator": 7104,
    "gateway": 7105,
    "quota_manager": 7106,
}
"""Each role's port for other processes. The admin port is `ADMIN_ABOVE_RPC` higher."""
ADMIN_ABOVE_RPC = 100
OWN_PORTS = frozenset({ETCD_CLIENT, ETCD_PEER, *RPC_PORTS.values(), *(port + ADMIN_ABOVE_RPC for port in RPC_PORTS.values())})
COUNTS = (3, 5, 7)
"""How many hosts there may be: etcd and the controllers go on while more than half of them are there."""
UNREACHABLE = re.compile(r"localhost|127\..*|0\.0\.0\.0|::1?")


@dataclass(frozen=True)
class Hosts:
    """All hosts, in an order that is the same on each. `name` is the host that this is for.

    A host's place in the order, from 1, is the node id of each of its processes, and so the broker id of its storage node.
    """

    names: tuple[str, ...]
    name: str
    racks: tuple[str, ...] = ()
    port: int = 9092
    address: str = ""
    """Where etcd listens for other hosts. Empty: at the address in `name`, or at all addresses if that is a name."""

    def __post_init__(self) -> None:
        """Raises LauncherError."""
        for name in self.names:
            if not NAME.fullmatch(name) and not is_ipv6(name):
                raise LauncherError(f"--hosts has {name!r}; expected names or addresses of hosts, separated by commas")
            if UNREACHABLE.fullmatch(name):
                raise LauncherError(f"--hosts has {name}, which other hosts cannot reach; expected its address in the network")
            if self.names.count(name) > 1:
                raise LauncherError(f"--hosts names {name} twice")
        if self.address and not is_address(self.address):
            raise LauncherError(f"--address is {self.address}; expected an IPv4 or IPv6 address of this host")
        if len(self.names) not in COUNTS:
            raise LauncherError(f"--hosts names {len(self.names)} hosts; expected {', '.join(map(str, COUNTS))}")
        if self.name not in self.names:
            raise LauncherError(f"--host is {self.name}; expected one of --hosts: {', '.join(self.names)}")
        if self.racks and len(self.racks) != len(self.names):
            raise LauncherError(f"--racks names {len(self.racks)} racks; expected {len(self.names)}, one for each of --hosts")
        if "" in self.racks:
            raise LauncherError("--racks has an empty name; expected one for each of --hosts")
        if not 1024 <= self.port <= 65_535 - len(self.names):
            raise LauncherError(f"--port is {self.port}; expected 1024 to {65_535 - len(self.names)}")
        if taken := sorted(OWN_PORTS & set(self.client_ports)):
            raise LauncherError(f"--port {self.port} takes {taken[0]}, which another process of the cluster has")

    @property
    def node_id(self) -> int:
        return self.names.index(self.name) + 1

    @property
    def rack(self) -> str:
        return self.racks[self.node_id - 1] if self.racks else ""

    @property
    def client_ports(self) -> range:
        """The bootstrap port, and one for each broker id."""
        return range(self.port, self.port + len(self.names) + 1)

    def addresses(self, port: int) -> str:
        """That port of each host, separated by commas."""
        return ",".join(with_port(name, port) for name in self.names)

    @property
    def listen_address(self) -> str:
        """etcd binds addresses, and no names."""
        return self.address or (self.name if is_address(self.name) else self.any_address)

    @property
    def any_address(self) -> str:
        """Every address of a host, also those of IPv6 where a host is named by one."""
        return ANY_IPV6 if any(map(is_ipv6, self.names)) else ANY
