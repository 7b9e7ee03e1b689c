"""Which processes make up a cluster, and what each is told. Pure: a shape goes in, command lines come out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.local import etcd_protection
from services.local.cluster_shape import ETCD_CLIENT, ETCD_METRICS, ETCD_PEER, HOST, ZIPKIN, ZIPKIN_TRACES, Shape
from services.local.host_names import with_port
from services.local.run_directory import RunDirectory

STOP_ORDER = (
    "gateway",
    "quota_manager",
    "group_coordinator",
    "transaction_coordinator",
    "node",
    "storage",
    "controller",
    "etcd",
    "zipkin",
)
"""A process that drains needs those behind it."""


ETCD_LOG_ROTATION = '{"maxsize": 64, "maxbackups": 3}'
"""In MiB, as the services' log files by default."""


@dataclass(frozen=True)
class ProcessPlan:
    """One process. `mark` is the argument that no other process has: a pid file may outlive its process, and pids return."""

    name: str
    role: str
    argv: tuple[str, ...]
    mark: str
    ports: tuple[int, ...]
    probe_port: int
    probe_path: str
    addresses: Mapping[str, Sequence[str]]
    """`host:port` by what it serves. Brokers have one each."""
    environment: Mapping[str, str] = field(default_factory=dict)
    probe_host: str = HOST
    places: tuple[str, ...] = ()
    """Of a node: the services that it stands for. What it was given is remembered as theirs, and the first one's data is its."""

    @property
    def has_gateway(self) -> bool:
        """Whether clients connect to it."""
        return self.role in ("gateway", "node")

    @property
    def block(self) -> int:
        """Which block of ports its gateway has. Nodes share the first."""
        return self.number if self.role == "gateway" else 1

    @property
    def number(self) -> int:
        """Of a service, among those of its role."""
        return int(self.name.rpartition("-")[2])

    @property
    def is_service(self) -> bool:
        """Whether it is one of ours, which Python runs."""
        return self.role not in ("etcd", "zipkin")

    @property
    def is_part(self) -> bool:
        """Whether the cluster needs it."""
        return self.role != "zipkin"


def with_host(plan: ProcessPlan, host: str) -> ProcessPlan:
    """The same gateway, whose clients reach it at another address. The admin port stays on loopback."""
    addresses = {
        name: each if name == "admin" else [with_port(host, int(address.rpartition(":")[2])) for address in each]
        for name, each in plan.addresses.items()
    }
    return replace(plan, addresses=addresses)


def plan_cluster(
    shape: Shape, run: RunDirectory, *, python: Path, etcd: Path, zipkin: Path = Path("zipkin.jar"), etcd_tls: bool = False
) -> list[ProcessPlan]:
    """Every process of the cluster, etcd first, and the trace UI. `etcd_tls`: whether etcd has TLS and users."""
    trace_ui = [_zipkin(shape, run, zipkin)] if shape.traces == ZIPKIN_TRACES else []
    services = _services(shape, run, python)
    if etcd_tls:
        services = (_with_user(plan, run) for plan in services)
    return [_etcd(shape, run, etcd, tls=etcd_tls), *services, *trace_ui]


def _with_user(plan: ProcessPlan, run: RunDirectory) -> ProcessPlan:
    """The same service, with the certificate by which etcd knows it."""
    user = etcd_protection.user_of(plan.role)
    return replace(plan, environment={**plan.environment, **etcd_protection.settings_of(run, user)})


def _zipkin(shape: Shape, run: RunDirectory, jar: Path) -> ProcessPlan:
    """Keeps its spans in memory. It shows them at /zipkin/ of its port."""
    port = shape.port + ZIPKIN
    mark = f"-Dpenstock=zipkin@{run.path}"
    listener = {"ip": HOST, "port": str(port), "protocols[0]": "http"}
    argv = (
        "java",
        mark,
        "-Xmx256m",
        # It starts sooner so: most of its life it waits.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"-Darmeria.ports[0].{name}={value}" for name, value in listener.items()),
        "-jar",
        str(jar),
    )
    environment = {"STORAGE_TYPE": "mem", "MEM_MAX_SPANS": "100000"}
    address = shape.zipkin_endpoint()
    return ProcessPlan("zipkin", "zipkin", argv, mark, (port,), port, "/health", {"traces": [address]}, environment)


def _etcd(shape: Shape, run: RunDirectory, etcd: Path, *, tls: bool) -> ProcessPlan:
    client, peer = shape.port + ETCD_CLIENT, shape.port + ETCD_PEER
    told = shape.port + ETCD_METRICS if tls else client
    scheme = "https" if tls else "http"
    mark = f"--data-dir={run.data_directory('etcd')}"
    argv = (
        str(etcd),
        "--name=etcd",
        mark,
        f"--listen-client-urls={scheme}://{HOST}:{client}",
        f"--advertise-client-urls={scheme}://{HOST}:{client}",
        f"--listen-peer-urls={scheme}://{HOST}:{peer}",
        f"--initial-advertise-peer-urls={scheme}://{HOST}:{peer}",
        f"--initial-cluster=etcd={scheme}://{HOST}:{peer}",
        *(etcd_protection.arguments_of(run, f"{HOST}:{told}") if tls else ()),
        # A member that is alone on loopback elects itself; waiting for others would only delay the start (0.5 s by default).
        "--heartbeat-interval=40",
        "--election-timeout=200",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1h",
        "--snapshot-count=10000",
        "--logger=zap",
        "--log-level=warn",
        f"--log-outputs={run.log_file('etcd')}",  # a panic still goes to stderr, which is the same file
        "--enable-log-rotation",
        f"--log-rotation-config-json={ETCD_LOG_ROTATION}",
    )
    ports = tuple(dict.fromkeys((client, peer, told)))
    return ProcessPlan("etcd", "etcd", argv, mark, ports, told, "/health", {"client": [f"{HOST}:{client}"]})


def sets_etcd(variable: str) -> bool:
    """Whether etcd reads it as a setting of its own, which could contradict the plan's. `ETCD_UNSUPPORTED_ARCH` is none: on some
    machines etcd does not start without it."""
    return variable.startswith("ETCD_") and variable != "ETCD_UNSUPPORTED_ARCH"


def health_port(argv: Sequence[str]) -> int | None:
    """The port in the arguments of an etcd at which it tells its health: that for clients, if it has no other one."""
    given = dict(argument.split("=", 1) for argument in argv if argument.startswith("--listen-") and "=" in argument)
    url = given.get("--listen-metrics-urls") or given.get("--listen-client-urls", "")
    return int(url.rpartition(":")[2]) if url else None


def _services(shape: Shape, run: RunDirectory, python: Path) -> Iterator[ProcessPlan]:
    for role, count in (
        ("controller", shape.controllers),
        ("node" if shape.has_nodes else "storage", shape.storage),
        ("group_coordinator", shape.coordinators),
        ("transaction_coordinator", shape.transaction_coordinators),
        ("quota_manager", shape.quota_managers),
        ("gateway", 0 if shape.has_nodes else shape.gateways),
    ):
        for node_id in range(1, count + 1):
            yield _service(role, node_id, shape, run, python)


def _service(role: str, node_id: int, shape: Shape, run: RunDirectory, python: Path) -> ProcessPlan:
    name = f"{role}-{node_id}"
    places: tuple[str, ...] = (f"storage-{node_id}", f"gateway-{node_id}") if role == "node" else (name,)
    admin = shape.admin_port(role, node_id)
    # An -X option that Python does not know is ignored by it, and shows in `ps` which process is which.
    mark = f"-Xpenstock={name}@{run.path}"
    environment = {
        "PENSTOCK_NODE_ID": str(node_id),
        "PENSTOCK_DATA_DIR": str(run.data_directory(places[0])),
        "PENSTOCK_ETCD": shape.etcd_endpoint(),
        "PENSTOCK_ADMIN_PORT": str(admin),
        "PENSTOCK_LOG_FILE": str(run.log_file(name)),
        # glibc gives every thread its own heap by default, which costs tens of MB over all processes.
        "MALLOC_ARENA_MAX": "2",
        "PYTHONUNBUFFERED": "1",
    }
    if shape.traces == ZIPKIN_TRACES:
        environment["PENSTOCK_TRACE_EXPORTER"] = "zipkin"
        environment["PENSTOCK_TRACE_ENDPOINT"] = f"http://{shape.zipkin_endpoint()}/api/v2/spans"
    ports: tuple[int, ...] = (admin,)
    addresses = {"admin": [f"{HOST}:{admin}"]}
    environment["PENSTOCK_RPC_UNIX"] = str(run.socket(places[0]))
    base = shape.port_base(node_id)
    if role in ("gateway", "node"):
        environment["PENSTOCK_PORT_BASE"] = str(base)
        environment["PENSTOCK_ADVERTISED_PORT_BASE"] = str(base)
    if role == "node":
        environment["PENSTOCK_GATEWAY_RPC_UNIX"] = str(run.socket(places[1]))
        ports = (base + node_id, admin)
        addresses = {"kafka": [f"{HOST}:{base + node_id}"], **addresses}
    if role == "gateway":
        ports = (base, *(base + broker for broker in range(1, shape.storage + 1)), admin)
        brokers = [f"{HOST}:{base + broker}" for broker in range(1, shape.storage + 1)]
        addresses = {"kafka": [f"{HOST}:{base}"], "brokers": brokers, **addresses}
    argv = (str(python), mark, "-m", f"services.{role}")
    return ProcessPlan(name, role, argv, mark, ports, admin, "/readyz", addresses, environment, places=places)
