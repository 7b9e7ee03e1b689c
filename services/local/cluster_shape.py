"""What a local cluster consists of: how many of each, and which ports they take.

A cluster owns one block of 100 ports per gateway, so clusters whose PORT differs by that much coexist:
PORT is where clients bootstrap, PORT+i leads to broker i, and from PORT+41 on come etcd and the admin ports.
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
    "group_coordinator": GROUP_COORDINATOR_ADMIN,
    "transaction_coordinator": TRANSACTION_COORDINATOR_ADMIN,
    "quota_manager": QUOTA_MANAGER_ADMIN,
}

HOST = "127.0.0.1"
NO_TRACES, ZIPKIN_TRACES = "none", "zipkin"
UNSECURED, SECURED = "off", "on"


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

    def __post_init__(self) -> None:
        for name, value, most in (
            ("STORAGE", self.storage, MOST_STORAGE),
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
        )

    @property
    def ports(self) -> range:
        """All that it may take, however many processes there are."""
        return range(self.port, self.port + PORTS_PER_GATEWAY * self.gateways)

    def bootstrap_port(self, gateway: int) -> int:
        return self.port + PORTS_PER_GATEWAY * (gateway - 1)

    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.bootstrap_port(gateway)}" for gateway in range(1, self.gateways + 1))

    def etcd_endpoint(self) -> str:
        return f"{HOST}:{self.port + ETCD_CLIENT}"

    def zipkin_endpoint(self) -> str:
        return f"{HOST}:{self.port + ZIPKIN}"

    def admin_port(self, role: str, node_id: int) -> int:
        return self.port + _FIRST_ADMIN[role] + node_id

    def with_given(self, **given: str | None) -> "Shape":
        """The same shape, but for what was given on the command line."""
        traces = given.pop("traces", None) or self.traces
        security = given.pop("security", None) or self.security
        numbers = {name: _number(name, text) for name, text in given.items() if text is not None}
        return dataclasses.replace(self, **numbers, traces=traces, security=security)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise LauncherError(f"{name.upper()}={text} is not a whole number") from None
