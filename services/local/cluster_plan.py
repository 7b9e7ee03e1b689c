"""Which processes make up a cluster, and what each is told. Pure: a shape goes in, command lines come out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.local.cluster_shape import ETCD_CLIENT, ETCD_PEER, HOST, ZIPKIN, ZIPKIN_TRACES, Shape
from services.local.host_names import with_port
from services.local.run_directory import RunDirectory

STOP_ORDER = (
    "gateway",
    "quota_manager",
    "group_coordinator",
    "transaction_coordinator",
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
    shape: Shape, run: RunDirectory, *, python: Path, etcd: Path, zipkin: Path = Path("zipkin.jar")
) -> list[ProcessPlan]:
    """Every process of the cluster, etcd first, and the trace UI."""
    trace_ui = [_zipkin(shape, run, zipkin)] if shape.traces == ZIPKIN_TRACES else []
    return [_etcd(shape, run, etcd), *_services(shape, run, python), *trace_ui]


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


def _etcd(shape: Shape, run: RunDirectory, etcd: Path) -> ProcessPlan:
    client, peer = shape.port + ETCD_CLIENT, shape.port + ETCD_PEER
    mark = f"--data-dir={run.data_directory('etcd')}"
    argv = (
        str(etcd),
        "--name=etcd",
        mark,
        f"--listen-client-urls=http://{HOST}:{client}",
        f"--advertise-client-urls=http://{HOST}:{client}",
        f"--listen-peer-urls=http://{HOST}:{peer}",
        f"--initial-advertise-peer-urls=http://{HOST}:{peer}",
        f"--initial-cluster=etcd=http://{HOST}:{peer}",
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
    return ProcessPlan("etcd", "etcd", argv, mark, (client, peer), client, "/health", {"client": [f"{HOST}:{client}"]})


def sets_etcd(variable: str) -> bool:
    """Whether etcd reads it as a setting of its own, which could contradict the plan's. `ETCD_UNSUPPORTED_ARCH` is none: on some
    machines etcd does not start without it."""
    return variable.startswith("ETCD_") and variable != "ETCD_UNSUPPORTED_ARCH"


def client_port(argv: Sequence[str]) -> int | None:
    """The port for clients in the arguments of an etcd."""
    urls = (argument.partition("=")[2] for argument in argv if argument.startswith("--listen-client-urls="))
    return next((int(url.rpartition(":")[2]) for url in urls), None)


def _services(shape: Shape, run: RunDirectory, python: Path) -> Iterator[ProcessPlan]:
    for role, count in (
        ("controller", shape.controllers),
        ("storage", shape.storage),
        ("group_coordinator", shape.coordinators),
        ("transaction_coordinator", shape.transaction_coordinators),
        ("quota_manager", shape.quota_managers),
        ("gateway", shape.gateways),
    ):
        for node_id in range(1, count + 1):
            yield _service(role, node_id, shape, run, python)


def _service(role: str, node_id: int, shape: Shape, run: RunDirectory, python: Path) -> ProcessPlan:
    name = f"{role}-{node_id}"
    admin = shape.admin_port(role, node_id)
    # An -X option that Python does not know is ignored by it, and shows in `ps` which process is which.
    mark = f"-Xpenstock={name}@{run.path}"
    environment = {
        "PENSTOCK_NODE_ID": str(node_id),
        "PENSTOCK_DATA_DIR": str(run.data_directory(name)),
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
    environment["PENSTOCK_RPC_UNIX"] = str(run.socket(name))
    if role == "gateway":
        bootstrap = shape.bootstrap_port(node_id)
        environment["PENSTOCK_PORT_BASE"] = str(bootstrap)
        environment["PENSTOCK_ADVERTISED_PORT_BASE"] = str(bootstrap)
        ports = (bootstrap, *(bootstrap + broker for broker in range(1, shape.storage + 1)), admin)
        brokers = [f"{HOST}:{bootstrap + broker}" for broker in range(1, shape.storage + 1)]
        addresses = {"kafka": [f"{HOST}:{bootstrap}"], "brokers": brokers, **addresses}
    argv = (str(python), mark, "-m", f"services.{role}")
    return ProcessPlan(name, role, argv, mark, ports, admin, "/readyz", addresses, environment)
