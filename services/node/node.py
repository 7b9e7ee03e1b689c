"""A storage node and a gateway in one process. Each has its own member record, RPC socket and role, as in a process of its own;
they share the event loop, the metadata store's connection, the admin port and the metrics."""

import asyncio
import os
import secrets
from collections.abc import Callable, Collection
from random import Random
from typing import NamedTuple

from libs.clock import Clock, SystemClock
from libs.cluster.health import health_of
from libs.cluster.measured_store import MeasuredStore
from libs.cluster.store import MetadataStore
from libs.commitlog.files.filesystem import FileSystem
from libs.roles import GATEWAY, STORAGE
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.transport.local_transport import LocalTransport
from libs.rpc.transport.transport import Transport
from libs.runtime.etcd_store import etcd_store
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle, descriptors_max, end_task
from libs.runtime.page_caches import page_cache_id
from libs.runtime.peer_tls import peer_tls
from libs.runtime.process import Environment, Identity, open_admin_port, remembering, system_identity
from libs.runtime.tracing.process_tracing import ProcessTracing
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.runtime.unused_producer_ids import UnusedProducerIds
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Origin
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.node.config import NODE
from services.node.siblings import Siblings
from services.storage.config import StorageConfig
from services.storage.environment import storage_environment
from services.storage.refusals import REFUSALS, refusal
from services.storage.service import StorageNode

Ready = Callable[[], tuple[bool, str]]


class Identities(NamedTuple):
    """The two members that a node is."""

    storage: Identity
    gateway: Identity

    @classmethod
    def of(cls, storage: StorageConfig, gateway: GatewayConfig, fs: FileSystem) -> "Identities":
        """New incarnations. Raises OSError, IncarnationDamaged."""
        clock = SystemClock()
        return cls(system_identity(storage, STORAGE, fs, clock), system_identity(gateway, GATEWAY, fs, clock))


class Shared(NamedTuple):
    """What both services use. A call between the two goes by a link of the transport, at the end of a turn of the event loop."""

    clock: Clock
    fs: FileSystem
    store: MetadataStore
    transport: Transport
    metrics: Metrics
    tracing: ProcessTracing
    denied: DeniedCalls
    descriptors_max: int
    """Of each of the two."""

    def environment(self, identity: Identity) -> Environment:
        """That of one of the two."""
        return Environment(
            identity,
            self.clock,
            self.store,
            self.transport,
            Random(secrets.randbits(128)),
            tracing=self.tracing.of(Origin(identity.role, identity.node_id, identity.version)),
            denied=self.denied,
        )


async def serve(
    storage: StorageConfig,
    gateway: GatewayConfig,
    traces: TraceSettings,
    identities: Identities,
    fs: FileSystem,
    lifecycle: Lifecycle,
) -> None:
    """Returns when both services have started. The gateway serves clients while logs are still recovered. The lifecycle ends it
    first: it answers what is outstanding while the storage node is there."""
    shared = _shared(storage, traces, fs, lifecycle)
    node = _storage_node(storage, identities.storage, shared, lifecycle)
    front = _gateway(gateway, identities.gateway, shared, lifecycle)
    views = front.connection_views
    siblings: Siblings | None = None

    def gateway_view() -> dict[str, object]:
        return front.debug() if siblings is None else {**front.debug(), "siblings": siblings.debug()}

    await open_admin_port(
        storage,
        lifecycle,
        shared.metrics,
        ready=both(node.ready, front.ready),
        in_sync=both(node.in_sync, front.ready),
        health=lambda: health_of(node.partitions.image, current=node.registration.registered),
        store=shared.store,
        traces=front.traces,
        debug={**node.debug(), "gateway": gateway_view, "connections": views.connections, "clients": views.clients},
        lookups={"partitions": node.partitions.look_up, "connections": views.connection, "clients": views.client},
    )
    lifecycle.on_stop(node.stop)
    lifecycle.on_stop(front.stop)
    siblings = _siblings(gateway, front, lifecycle)
    await asyncio.gather(_start(node), _open(front, siblings))


async def _open(front: Gateway, siblings: Siblings | None) -> None:
    """Starts the gateway, with the ports of its former life if siblings kept them."""
    if siblings is not None:
        siblings.listen()
        front.on_members(siblings.follow)
        front.listeners.inherit, front.listeners.opened = siblings.reclaim, siblings.offer
    await front.start()


def _siblings(config: GatewayConfig, front: Gateway, lifecycle: Lifecycle) -> Siblings | None:
    """Those with the same ports, whose sockets lie in one directory. None: this node has no socket for callers on its host."""
    if not config.rpc_unix:
        return None
    writing: set[asyncio.Task[None]] = set()

    def register(broker_ids: Collection[int]) -> None:
        task = asyncio.get_running_loop().create_task(front.register_broker_ids(broker_ids), name="taken ports")
        writing.add(task)
        task.add_done_callback(writing.discard)

    async def close() -> None:
        siblings.close()
        for task in list(writing):
            await end_task(task)

    directory = os.path.dirname(config.rpc_unix)
    siblings = Siblings(
        config.node_id,
        lambda node_id: os.path.join(directory, f"ports-{config.port_base}-{node_id}.sock"),
        front.listeners,
        on_change=register,
        drain=front.connections.drain_broker,
    )
    lifecycle.on_stop(close)
    return siblings


async def _start(node: StorageNode) -> None:
    """Raises CannotRun where the storage node refuses its log directories."""
    try:
        await node.start()
    except REFUSALS as error:
        raise refusal(error) from error


def both(storage: Ready, gateway: Ready) -> Ready:
    """Readiness of both services. Of a node that is ready, it says what the storage node says."""

    def ready() -> tuple[bool, str]:
        is_ready, said = storage()
        if not is_ready:
            return False, said
        serves, reason = gateway()
        return (True, said) if serves else (False, f"{GATEWAY}: {reason}")

    return ready


def _shared(config: StorageConfig, traces: TraceSettings, fs: FileSystem, lifecycle: Lifecycle) -> Shared:
    clock, metrics, denied = SystemClock(), Metrics(NODE, process=True, version=own_version()), DeniedCalls()
    store = MeasuredStore(etcd_store(config, lifecycle, metrics), clock.monotonic)
    lifecycle.on_stop(store.close)
    metrics.registry.register(denied)
    transport = LocalTransport(silence_s=config.silence_s, peer_tls=peer_tls(config, (STORAGE, GATEWAY), lifecycle, metrics))
    tracing = ProcessTracing(traces, lifecycle, metrics)
    return Shared(clock, fs, store, transport, metrics, tracing, denied, descriptors_max() // 2)


def _storage_node(config: StorageConfig, identity: Identity, shared: Shared, lifecycle: Lifecycle) -> StorageNode:
    environment = storage_environment(
        shared.environment(identity),
        shared.fs,
        shared.metrics,
        die=lifecycle.stop,
        log_settings=config.logging,
        descriptors_max=shared.descriptors_max,
    )
    return StorageNode(config, environment)


def _gateway(config: GatewayConfig, identity: Identity, shared: Shared, lifecycle: Lifecycle) -> Gateway:
    environment = remembering(shared.environment(identity), config, shared.fs)
    return Gateway(
        config,
        environment,
        shared.metrics,
        die=lifecycle.stop,
        descriptors_max=shared.descriptors_max,
        spare_ids=UnusedProducerIds(shared.fs, config.data_dir, page_cache_id(config.data_dir)),
        broker_ids=frozenset((config.node_id,)),
    )
