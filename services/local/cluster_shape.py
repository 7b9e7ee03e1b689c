"""What a local cluster consists of: how many of each, and which ports they take.

A cluster owns one block of 100 ports per gateway, so clusters whose PORT differs by that much coexist:
PORT is where clients bootstrap, PORT+i leads to broker i, and from PORT+41 on come etcd and the admin ports. Of nodes, each
listens at PORT+i only, and clients bootstrap there.
"""

import dataclasses
from dataclasses import dataclass

from services.local.errors import LauncherError

PORTS_PER_GATEWAY = 100
MOST_STORAGE = 20
MOST_GATEWAYS = 9
MOST_CONTROLLERS = 5
MOST_COORDINATORS = 7
MOST_QUOTA_MANAGERS = 5

QUOTA_MANAGER_ADMIN = 40  # up to +45
ZIPKIN = 46
ETCD_METRICS = 47
"""Of an etcd with TLS: where it tells its health to whoever asks."""
ETCD_CLIENT = 50
ETCD_PEER = 51
CONTROLLER_ADMIN = 51  # controller-1 is at +52
GATEWAY_ADMIN = 56
STORAGE_ADMIN = 65
GROUP_COORDINATOR_ADMIN = 85  # up to +92
TRANSACTION_COORDINATOR_ADMIN = 92  # up to +99

_FIRST_ADMIN = {
    "controller": CONTROLLER_ADMIN,
    "gateway": GATEWAY_ADMIN,
    "storage": STORAGE_ADMIN,
    "node": STORAGE_ADMIN,
    "group_coordinator": GROUP_COORDINATOR_ADMIN,
    "transaction_coordinator": TRANSACTION_COORDINATOR_ADMIN,
    "quota_manager": QUOTA_MANAGER_ADMIN,
}

HOST = "127.0.0.1"
NO_TRACES, ZIPKIN_TRACES = "none", "zipkin"
UNSECURED, SECURED = "off", "on"
SERVICE_ROLES, NODE_ROLES = "services", "node"


@dataclass(frozen=True)
class Shape:
    """How many processes of each role, and the first port."""

    port: int = 9092
    storage: int = 3
    gateways: int = 1
    controllers: int = 1
    coordinators: int = 1
    transaction_coordinators: int = 1
    quota_managers: int = 1
    traces: str = NO_TRACES
    """The trace UI beside the cluster."""
    security: str = UNSECURED
    """Whether clients need TLS, a user and ACLs."""
    roles: str = SERVICE_ROLES
    """Whether each storage node has a gateway in its process (`services/node`), or gateways have processes of their own."""

    def __post_init__(self) -> None:
        for name, value, most in (
            ("NODES" if self.has_nodes else "STORAGE", self.storage, MOST_STORAGE),
            ("GATEWAYS", self.gateways, MOST_GATEWAYS),
            ("CONTROLLERS", self.controllers, MOST_CONTROLLERS),
            ("COORDINATORS", self.coordinators, MOST_COORDINATORS),
            ("TRANSACTION_COORDINATORS", self.transaction_coordinators, MOST_COORDINATORS),
            ("QUOTA_MANAGERS", self.quota_managers, MOST_QUOTA_MANAGERS),
        ):
            if not 1 <= value <= most:
                raise LauncherError(f"{name}={value} is out of range: a local cluster has 1 to {most}")
        if self.traces not in (NO_TRACES, ZIPKIN_TRACES):
            raise LauncherError(f"TRACES={self.traces} is no trace UI: a local cluster has {ZIPKIN_TRACES} or {NO_TRACES}")
        if self.security not in (UNSECURED, SECURED):
            raise LauncherError(f"SECURITY={self.security}: expected {SECURED} or {UNSECURED}")
        if self.roles not in (SERVICE_ROLES, NODE_ROLES):
            raise LauncherError(f"ROLES={self.roles}: expected {NODE_ROLES} or {SERVICE_ROLES}")
        if self.has_nodes and self.gateways != 1:
            raise LauncherError(
                f"ROLES={self.roles} has a gateway in each node: give GATEWAYS=1 in place of {self.gateways}; "
                "STORAGE= says how many"
            )
        if not 1024 <= self.port <= 65535 - self.gateways * PORTS_PER_GATEWAY:
            raise LauncherError(
                f"PORT={self.port} is out of range: a cluster takes {self.gateways * PORTS_PER_GATEWAY} ports from it on"
            )

    def __str__(self) -> str:
        return (
            f"PORT={self.port} STORAGE={self.storage} GATEWAYS={self.gateways} CONTROLLERS={self.controllers} "
            f"COORDINATORS={self.coordinators} TRANSACTION_COORDINATORS={self.transaction_coordinators} "
            f"QUOTA_MANAGERS={self.quota_managers}"
            + (f" TRACES={self.traces}" if self.traces != NO_TRACES else "")
            + (f" SECURITY={self.security}" if self.security != UNSECURED else "")
            + (f" ROLES={self.roles}" if self.roles != SERVICE_ROLES else "")
        )

    @property
    def has_nodes(self) -> bool:
        return self.roles == NODE_ROLES

    @property
    def gateway_numbers(self) -> range:
        """Of the gateways, or of the nodes in their place."""
        return range(1, (self.storage if self.has_nodes else self.gateways) + 1)

    @property
    def ports(self) -> range:
        """All that it may take, however many processes there are."""
        return range(self.port, self.port + PORTS_PER_GATEWAY * self.gateways)

    def port_base(self, gateway: int) -> int:
        """Broker i is at this port plus i."""
        return self.port if self.has_nodes else self.port + PORTS_PER_GATEWAY * (gateway - 1)

    def bootstrap_port(self, gateway: int) -> int:
        """Where clients first connect to this gateway. A node has its broker's port only."""
        return self.port_base(gateway) + (gateway if self.has_nodes else 0)

    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.bootstrap_port(gateway)}" for gateway in self.gateway_numbers)

    def etcd_endpoint(self) -> str:
        return f"{HOST}:{self.port + ETCD_CLIENT}"

    def zipkin_endpoint(self) -> str:
        return f"{HOST}:{self.port + ZIPKIN}"

    def admin_port(self, role: str, node_id: int) -> int:
        return self.port + _FIRST_ADMIN[role] + node_id

    def with_given(self, **given: str | None) -> "Shape":
        """The same shape, but for what was given on the command line. Each node has a storage node, so `nodes` gives their
        number. Raises LauncherError."""
        traces = given.pop("traces", None) or self.traces
        security = given.pop("security", None) or self.security
        roles = given.pop("roles", None) or self.roles
        nodes = given.pop("nodes", None)
        numbers = {name: _number(name, text) for name, text in given.items() if text is not None}
        if nodes is not None:
            if roles != NODE_ROLES:
                raise LauncherError(f"NODES={nodes} takes ROLES={NODE_ROLES}; STORAGE= says how many storage nodes there are")
            if given.get("storage") not in (None, nodes):
                raise LauncherError(f"NODES={nodes} and STORAGE={given['storage']} differ: a node is a storage node, so give one")
            numbers["storage"] = _number("nodes", nodes)
        return dataclasses.replace(self, **numbers, traces=traces, security=security, roles=roles)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise LauncherError(f"{name.upper()}={text} is not a whole number") from None
