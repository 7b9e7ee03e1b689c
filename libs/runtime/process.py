"""The scaffold of a service's process. A new service is a page on top of it (docs/how-to-change.md).

`__main__` calls `run_service` with the service's config, role and `serve`. `serve` runs in an `Environment`: `system_environment`
makes the real one, the simulator its own. `open_admin_port` serves metrics and health; `libs/runtime/registration.py` registers.
"""

import asyncio
import gc
import logging
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Protocol, TypeVar

from libs.clock import Clock, SystemClock
from libs.cluster.etcd.access import access_digest
from libs.cluster.features import FEATURE_LEVEL, unsupported_levels
from libs.cluster.health import Health
from libs.cluster.image import ClusterImage
from libs.cluster.measured_store import MeasuredStore
from libs.cluster.records import Member
from libs.cluster.store import MetadataStore
from libs.commitlog.files.durable_files import make_directory
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.errors import DirectoryLocked
from libs.lean_dataclass import dataclass
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.server.rpc_server import Accept, Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.rpc.transport.transport import Transport
from libs.runtime.address_book import AddressBook
from libs.runtime.admin import AdminServer, Lookup
from libs.runtime.admin_access import AdminAccess, access_to
from libs.runtime.config import load_or_exit
from libs.runtime.ending import run_program
from libs.runtime.identity import host_id, next_incarnation, own_version
from libs.runtime.lifecycle import CannotRun, Lifecycle, run
from libs.runtime.log_level_requests import METHODS as LOG_LEVEL_METHODS
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.peer_tls import peer_tls
from libs.runtime.peers import ImageLending, Peers
from libs.runtime.service_config import ServiceConfig
from libs.runtime.setting_names import asks_for_revocation, unknown
from libs.runtime.tracing.process_tracing import ProcessTracing, read_trace_settings, warn_of_variables
from libs.runtime.tracing.trace_answers import TraceLending, TraceViews
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.telemetry import logs
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Origin
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing, default_tracing

log = logging.getLogger("process")

C = TypeVar("C", bound=ServiceConfig)
OF_TRACES = "PENSTOCK_TRACE_"
"""A setting that begins with this and that no service has is refused: a trace that is missing would be noticed too late."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is. A restart changes the incarnation alone."""

    role: str
    node_id: int
    incarnation: int
    host_id: str
    version: str

    @property
    def name(self) -> str:
        """As in `make status`: `storage-1`."""
        return f"{self.role}-{self.node_id}"

    def hello(self, image: ClusterImage) -> Hello:
        """The introduction on each RPC connection."""
        return Hello(self.role, self.node_id, self.incarnation, self.version, image.feature_level, image.cluster_id)

    def member(self) -> Member:
        """The member record, without addresses."""
        return Member(
            self.role,
            self.node_id,
            self.incarnation,
            self.host_id,
            version=self.version,
            feature_level=FEATURE_LEVEL,
            etcd_access=access_digest(),
        )


@dataclass(frozen=True, slots=True)
class Environment:
    """What a service takes from the world outside its process."""

    identity: Identity
    clock: Clock
    store: MetadataStore
    transport: Transport
    random: Random
    peers: Peers | None = None
    """Processes that lend their cluster image while the store is away. None: the start waits for the store."""
    marks: MetadataMarks | None = None
    """The file of how far this process has seen the metadata. None: it keeps none."""
    tracing: Tracing = field(default_factory=default_tracing)
    """Which requests have a trace, and who takes its spans."""
    denied: DeniedCalls = field(default_factory=DeniedCalls)
    """What callers of this process may not call, and called."""


class World(Protocol):
    """What the environments of all services have."""

    @property
    def identity(self) -> Identity: ...
    @property
    def tracing(self) -> Tracing: ...


def own_traces(world: World) -> TraceViews:
    """What a process shows of its own traces at its admin port. A gateway asks others, too."""
    return TraceViews(world.identity.name, world.tracing.ring)


def lent_methods(world: World, image: Callable[[], ClusterImage]) -> dict[str, Accept]:
    """The RPC methods that every process answers: for its cluster image, its traces and its log levels."""
    traces = TraceLending(world.identity.name, world.tracing.ring)
    return {**ImageLending(image).methods, **traces.methods, **LOG_LEVEL_METHODS}


def span_recorder(identity: Identity, tracing: Tracing, clock: Clock) -> SpanRecorder:
    """The recorder of a process, whose event loop runs."""
    process = process_name(identity.role, identity.node_id, identity.incarnation)
    return SpanRecorder(tracing, process, clock, asyncio.get_running_loop().time)


Serve = Callable[[C, TraceSettings, Lifecycle], Awaitable[None]]
"""What a service does from its start to the end of its process."""


def read_config(config_type: type[C], role: str, *, beside: Sequence[type] = ()) -> tuple[C, TraceSettings]:
    """The settings of this process, and of its traces; logging is set up by them. Ends the process if one is missing or wrong,
    and warns of variables that no service knows. `beside`: the other configs of the process, whose keys the file may have."""
    config = load_or_exit(config_type, role, beside=beside)
    if problem := config.problem():
        sys.exit(f"{role}: {problem}")
    try:
        trace_settings = read_trace_settings(config)
    except ValueError as error:
        sys.exit(f"{role}: {error}")
    try:
        logs.configure(role, f"{role}-{config.node_id}", config.logging)
    except OSError as error:
        sys.exit(f"{role}: PENSTOCK_LOG_FILE {config.log_file} cannot be opened: {error.strerror}")
    warn_of_variables(trace_settings)
    for variable, alike in unknown(name for name, value in os.environ.items() if value):  # an empty one asks for nothing
        if asks_for_revocation(variable):
            sys.exit(
                f"{role}: there is no setting {variable}: nothing reads revocation lists (docs/security.md#revoked-certificates)"
            )
        if variable.startswith(OF_TRACES):
            sys.exit(f"{role}: there is no setting {variable}" + (f"; did you mean {alike}?" if alike else " (docs/settings.md)"))
        log.warning("there is no such setting", extra=fields(variable=variable, did_you_mean=alike, see="docs/settings.md"))
    return config, trace_settings


def run_service(config_type: type[C], role: str, serve: Serve[C]) -> None:
    """Never returns: reads the settings, runs `serve` until a signal or a failure ends the process, drains, and exits."""
    run_program(lambda: run(partial(start_and_freeze, partial(serve, *read_config(config_type, role)))))


async def start_and_freeze(start: Callable[[Lifecycle], Awaitable[None]], lifecycle: Lifecycle) -> None:
    """Starts a process, and hides what it then has from the garbage collector: modules, classes and settings, which stay.

    A whole collection walked over them too, 40 ms of the CPU of its event loop.
    """
    await start(lifecycle)
    gc.freeze()


def system_identity(config: ServiceConfig, role: str, fs: FileSystem, clock: Clock) -> Identity:
    """The identity of a real process, with a new incarnation. Raises OSError if the data directory is unusable."""
    incarnation = next_incarnation(fs, config.data_dir, clock.wall_ms())
    return Identity(role, config.node_id, incarnation, config.host_id or host_id(), own_version())


def lock_data_directory(config: ServiceConfig, fs: FileSystem) -> int:
    """Makes the data directory, and holds it until the process ends. Returns the descriptor of the lock.

    Call it before anything else is touched, so that a second process changes nothing. Raises DirectoryLocked, OSError.
    """
    make_directory(fs, config.data_dir)
    return fs.lock(f"{config.data_dir}/.lock")


def system_environment(
    config: ServiceConfig, traces: TraceSettings, role: str, fs: FileSystem, lifecycle: Lifecycle, metrics: Metrics
) -> Environment:
    """The environment of a real process: sockets, etcd, the system's clock. Raises CannotRun if its data directory is no use."""
    from libs.runtime.etcd_store import etcd_store  # gRPC is dear to import, and a cluster in one process has no etcd

    clock = SystemClock()
    transport = SocketTransport(silence_s=config.silence_s, peer_tls=peer_tls(config, (role,), lifecycle, metrics))
    try:
        lock_data_directory(config, fs)
        identity = system_identity(config, role, fs, clock)
    except DirectoryLocked as error:
        raise CannotRun("data directory is in use by another process (PENSTOCK_DATA_DIR)", path=config.data_dir) from error
    except OSError as error:
        raise CannotRun("data directory cannot be used", path=config.data_dir, reason=error) from error
    store = MeasuredStore(etcd_store(config, lifecycle, metrics), clock.monotonic)
    tracing = ProcessTracing(traces, lifecycle, metrics).of(Origin(role, config.node_id, own_version()))
    denied = DeniedCalls()
    metrics.registry.register(denied)
    environment = Environment(identity, clock, store, transport, Random(secrets.randbits(128)), tracing=tracing, denied=denied)
    return remembering(environment, config, fs)


def remembering(environment: Environment, config: ServiceConfig, fs: FileSystem) -> Environment:
    """The same environment, with what the process keeps in its data directory: where its peers are, which lend their cluster
    image, and how far it has seen the metadata."""
    identity = environment.identity
    peers = Peers(
        AddressBook(fs, config.data_dir),
        config.peers,
        role=identity.role,
        node_id=identity.node_id,
        incarnation=identity.incarnation,
        version=identity.version,
        host_id=identity.host_id,
        transport=environment.transport,
    )
    return replace(environment, peers=peers, marks=MetadataMarks(fs, config.data_dir))


def refuse_newer_cluster(image: ClusterImage, version: str) -> None:
    """Raises CannotRun if the cluster is at a level that this software does not support. Call it with the first image, before
    anything is read or written by what the image says."""
    if levels := "; ".join(unsupported_levels(image)):
        raise CannotRun(
            f"this version of Penstock, {version}, does not support the level that the cluster was raised to: {levels}. "
            "Start the version that raised it, or a later one"
        )


def ready_where_reached(ready: Callable[[], tuple[bool, str]], socket: str) -> Callable[[], tuple[bool, str]]:
    """`ready`, except while there is no file of the process's own Unix socket: nobody can connect there. "": it has none.

    The process opens it a while after its admin port. What asks then waits; a socket that was there and is gone never returns.
    """
    was_there = False

    def reached() -> tuple[bool, str]:
        nonlocal was_there
        is_ready, reason = ready()
        if not socket or os.path.exists(socket):
            was_there = True
        elif is_ready and was_there:
            return False, f"its socket in {os.path.dirname(socket)} is gone: start it anew (`make down`, then `make up`)"
        elif is_ready:
            return False, f"its socket in {os.path.dirname(socket)} is not open yet"
        return is_ready, reason

    return reached


def _admin_access(config: ServiceConfig) -> AdminAccess:
    file = config.admin_token_file
    try:
        return access_to((config.admin_host, config.rpc_advertised_host, *config.admin_names), file)
    except (OSError, ValueError) as error:
        raise CannotRun("no admin token in this file (PENSTOCK_ADMIN_TOKEN_FILE)", path=file, reason=error) from error


async def open_admin_port(
    config: ServiceConfig,
    lifecycle: Lifecycle,
    metrics: Metrics,
    *,
    ready: Callable[[], tuple[bool, str]],
    health: Callable[[], Health],
    traces: TraceViews,
    debug: Mapping[str, Callable[[], object]],
    lookups: Mapping[str, Lookup] | None = None,
    in_sync: Callable[[], tuple[bool, str]] | None = None,
    store: MetadataStore | None = None,
) -> None:
    """Serves /healthz, /readyz, /health, /metrics and /debug until the process ends. Raises OSError if the port is taken, and
    CannotRun without the token that the settings name.

    `store` is the process's own: its metrics are served too, if it has any.
    """
    if isinstance(store, MeasuredStore):
        metrics.registry.register(store)
    access = _admin_access(config)
    admin = AdminServer(
        config.admin_host,
        config.admin_port,
        ready=ready_where_reached(ready, config.rpc_unix),
        health=health,
        metrics=metrics,
        debug={**debug, "traces": traces.traces},
        lookups={**(lookups or {}), "traces": traces.trace},
        in_sync=in_sync,
        access=access,
    )
    lifecycle.on_stop(admin.close)
    await admin.start()
