"""The services of a cluster in one process, each built as its own `__main__` builds it, over one metadata store in memory."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.health import Health, LongRunning, health_of, with_long_running
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.recorded_store import RecordedStore, RecordedWrites
from libs.cluster.records import (
    CONTROLLER,
    GATEWAY,
    GROUP_COORDINATOR,
    QUOTA_MANAGER,
    STORAGE,
    TRANSACTION_COORDINATOR,
    ConfigOverrides,
)
from libs.cluster.store import Put
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.transport.local_transport import LocalTransport
from libs.runtime.admin import Lookup
from libs.runtime.identity import host_id, next_incarnation, own_version
from libs.runtime.lifecycle import Lifecycle, descriptors_max
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.page_caches import page_cache_id
from libs.runtime.process import Environment, Identity
from libs.runtime.tracing.process_tracing import ProcessTracing, read_trace_settings, warn_of_variables
from libs.runtime.unused_producer_ids import UnusedProducerIds
from libs.telemetry.logs import LogSettings
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Origin
from libs.telemetry.tracing.recorder import Tracing
from services.controller import process as controller_process
from services.controller.config import ControllerConfig
from services.controller.controller import Controller
from services.controller.controller_meters import ControllerMeters
from services.dev.data_folder import DataFolder
from services.dev.metadata_files import MetadataFiles
from services.dev.settings import DEFAULTS, NODE_ID, Settings, WrongSetting
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.group_coordinator import process as group_process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator
from services.group_coordinator.gauges import GroupGauges
from services.quota_manager import process as quota_process
from services.quota_manager.config import QuotaManagerConfig
from services.quota_manager.meters import Meters
from services.quota_manager.quota_manager import QuotaManager
from services.storage.config import StorageConfig
from services.storage.environment import storage_environment
from services.storage.service import StorageNode
from services.storage.threads.one_thread import threads
from services.transaction_coordinator import process as transaction_process
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.gauges import TransactionGauges

LOOK_S = 0.001
NO_ETCD = ("none",)
"""No service of this process opens etcd: each gets the store in memory."""


@dataclass(frozen=True, slots=True)
class View:
    """What the admin port shows of one service."""

    role: str
    ready: Callable[[], tuple[bool, str]]
    debug: Mapping[str, Callable[[], object]]
    lookups: Mapping[str, Lookup]


class Cluster:
    """The services of one process. `start` returns when clients are served; the lifecycle ends them, the gateway first."""

    def __init__(
        self,
        settings: Settings,
        port: int,
        folder: DataFolder,
        lifecycle: Lifecycle,
        logging: LogSettings,
        tracing: Tracing | None = None,
    ) -> None:
        """`tracing` is of all its services: their spans go to one sink. None: each has its own, by OpenTelemetry's variables."""
        self._given_tracing = tracing
        self._settings, self._port, self._folder, self._lifecycle, self._logging = settings, port, folder, lifecycle, logging
        self._clock = SystemClock()
        self._version = own_version()
        self._incarnation: int = self._clock.wall_ms()
        self.metrics = Metrics("dev", process=True, version=self._version)
        self._denied = DeniedCalls()
        self._transport = LocalTransport()
        self.metrics.registry.register(self._denied)
        self.views: list[View] = []
        self._writes = RecordedWrites(Keyspace())
        self._image: Callable[[], ClusterImage] = ClusterImage
        self._long_running: Callable[[], Sequence[LongRunning]] = tuple

    async def start(self) -> None:
        """Raises OSError, MetadataDamaged, and what a storage node refuses its log directory for."""
        if not self._folder.temporary:
            self._incarnation = next_incarnation(self._folder.fs, self._folder.path, self._clock.wall_ms())
        self._trace()
        await self._open_store()
        await self._start_controller()
        await self._start_storage()
        await self._start_group_coordinator()
        await self._start_transaction_coordinator()
        await self._start_quota_manager()
        await self._start_gateway()
        while not self.ready()[0]:  # noqa: ASYNC110  (six services tell it, and none announces it)
            await asyncio.sleep(LOOK_S)

    def _trace(self) -> None:
        """Raises WrongSetting for a setting of traces."""
        try:
            settings = read_trace_settings(ControllerConfig(**self._common(CONTROLLER)))  # type: ignore[arg-type]
        except ValueError as error:
            raise WrongSetting(str(error)) from error
        warn_of_variables(settings)
        self._tracing = ProcessTracing(settings, self._lifecycle, self.metrics)

    def ready(self) -> tuple[bool, str]:
        for view in self.views:
            ready, reason = view.ready()
            if not ready:
                return False, f"{view.role}: {reason}"
        return True, "ready"

    def health(self) -> Health:
        health, found = health_of(self._image(), current=self.ready()[0]), self._long_running()
        return with_long_running(health, found, self._clock.wall_ms()) if found else health

    # -- the metadata store -------------------------------------------------------------------------------------------------

    async def _open_store(self) -> None:
        if self._folder.temporary:
            keyspace = Keyspace()
            self._writes = RecordedWrites(keyspace)
        else:
            files = MetadataFiles(self._folder.path, threads("metadata", 1), self._clock.wall_ms())
            self._lifecycle.on_stop(files.close)
            keyspace = files.load()
            self._writes = RecordedWrites(keyspace, files.record)
        set_cluster_wide(keyspace, self._settings.broker_configs.cluster_wide)
        if not self._folder.temporary:
            files.begin()

    def _environment(self, role: str) -> Environment:
        fs, data_dir = self._folder.fs, self._data_dir(role)
        fs.make_directories(data_dir)
        return Environment(
            Identity(role, NODE_ID, self._incarnation, host_id(), self._version),
            self._clock,
            RecordedStore(self._writes),
            self._transport,
            Random(secrets.randbits(128)),
            marks=MetadataMarks(fs, data_dir),
            tracing=self._given_tracing or self._tracing.of(Origin(role, NODE_ID, self._version)),
            denied=self._denied,
        )

    def _data_dir(self, role: str) -> str:
        return f"{self._folder.path}/{role}"

    def _common(self, role: str) -> dict[str, object]:
        """The settings that every service has."""
        return {
            "node_id": NODE_ID,
            "etcd": NO_ETCD,
            "data_dir": self._data_dir(role),
            "rpc_unix": f"{self._folder.sockets}/{role}.sock",
        }

    # -- the services -------------------------------------------------------------------------------------------------------

    async def _start_controller(self) -> None:
        async def built(controller: Controller) -> None:
            controller.first_users = self._settings.first_users
            self.metrics.registry.register(ControllerMeters(controller))
            self.metrics.watch_spans(controller.traces.recorder)
            self._image = lambda: controller.image
            self._long_running = controller.long_running
            self.views.append(View(CONTROLLER, lambda: (controller.elected, "not elected yet"), controller.debug(), {}))

        config = ControllerConfig(**self._common(CONTROLLER))  # type: ignore[arg-type]
        await controller_process.serve(config, self._environment(CONTROLLER), self._lifecycle, built)

    async def _start_storage(self) -> None:
        static = tuple(f"{name}={value}" for name, value in self._settings.broker_configs.static.items())
        config = StorageConfig(**self._common(STORAGE), broker_configs=static)  # type: ignore[arg-type]
        world = self._environment(STORAGE)
        self._lifecycle.on_stop(world.store.close)
        environment = storage_environment(
            world,
            self._folder.fs,
            self.metrics,
            die=self._lifecycle.stop,
            log_settings=self._logging,
            descriptors_max=descriptors_max() // 2,
        )
        node = StorageNode(config, environment)
        self.views.append(View(STORAGE, node.ready, node.debug(), {"partitions": node.partitions.look_up}))
        self._lifecycle.on_stop(node.stop)
        await node.start()

    async def _start_group_coordinator(self) -> None:
        async def built(coordinator: GroupCoordinator) -> None:
            self.metrics.registry.register(GroupGauges(coordinator))
            self.metrics.watch_spans(coordinator.recorder)
            debug = {"group-shards": coordinator.shards.debug, "groups": coordinator.group_views.groups}
            self.views.append(View(GROUP_COORDINATOR, coordinator.ready, debug, {"groups": coordinator.group_views.group}))

        config = GroupCoordinatorConfig(**self._common(GROUP_COORDINATOR))  # type: ignore[arg-type]
        await group_process.serve(config, self._environment(GROUP_COORDINATOR), self._lifecycle, built)

    async def _start_transaction_coordinator(self) -> None:
        async def built(coordinator: TransactionCoordinator) -> None:
            self.metrics.registry.register(TransactionGauges(coordinator, self._clock.wall_ms))
            self.metrics.watch_spans(coordinator.recorder)
            debug = {"transaction-shards": coordinator.shards.debug}
            self.views.append(View(TRANSACTION_COORDINATOR, coordinator.ready, debug, {}))

        config = TransactionCoordinatorConfig(**self._common(TRANSACTION_COORDINATOR))  # type: ignore[arg-type]
        await transaction_process.serve(config, self._environment(TRANSACTION_COORDINATOR), self._lifecycle, built)

    async def _start_quota_manager(self) -> None:
        async def built(manager: QuotaManager) -> None:
            self.metrics.registry.register(Meters(manager))
            debug = {"quotas": manager.accounts, "gateways": manager.gateways}
            self.views.append(View(QUOTA_MANAGER, manager.ready, debug, {}))

        config = QuotaManagerConfig(**self._common(QUOTA_MANAGER))  # type: ignore[arg-type]
        await quota_process.serve(config, self._environment(QUOTA_MANAGER), self._lifecycle, built)

    async def _start_gateway(self) -> None:
        settings = self._settings
        config = GatewayConfig(
            **self._common(GATEWAY),  # type: ignore[arg-type]
            port_base=self._port,
            listen_host=settings.host,
            advertised_host=settings.advertised_host,
            **settings.sasl,  # type: ignore[arg-type]
        )
        world = self._environment(GATEWAY)
        self._lifecycle.on_stop(world.store.close)
        spare_ids = UnusedProducerIds(self._folder.fs, config.data_dir, page_cache_id(config.data_dir))
        gateway = Gateway(
            config,
            world,
            self.metrics,
            die=self._lifecycle.stop,
            descriptors_max=descriptors_max() // 2,
            spare_ids=spare_ids,
        )
        views = gateway.connection_views
        debug = {
            "gateway": gateway.debug,
            "connections": views.connections,
            "clients": views.clients,
            "traces": gateway.traces.traces,
        }
        lookups = {"connections": views.connection, "clients": views.client, "traces": gateway.traces.trace}
        self.views.append(View(GATEWAY, lambda: broker_is_reachable(gateway), debug, lookups))
        self._lifecycle.on_stop(gateway.stop)
        await gateway.start()


def broker_is_reachable(gateway: Gateway) -> tuple[bool, str]:
    """Whether the gateway is ready, and listens at the port of the broker that it names."""
    ready, reason = gateway.ready()
    if ready and gateway.debug()["broker_ids"] != [NODE_ID]:
        return False, "the broker's port is not open"
    return ready, reason


def set_cluster_wide(keyspace: Keyspace, given: Mapping[str, str]) -> None:
    """Sets cluster-wide broker configs, as `kafka-configs.sh --entity-default` does. What was set before stays."""
    key = keys.config("broker", "")
    item = keyspace.get(key)
    former = decode(ConfigOverrides, item.value).values if item is not None else DEFAULTS
    keyspace.write([Put(key, encode(ConfigOverrides({**former, **given})))])
