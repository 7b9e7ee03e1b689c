"""The storage node and its life: it follows the cluster image, opens its log directories, and starts an `OpenedNode` over them.

Order of a start: lock → incarnation → image → log directories → logs → RPC → membership. It registers only once it can lead, and
leads only when a partition state names the incarnation that registered (Rule: restarts).
Order of a stop: others lead what they can → no more appends → final sync → logs closed → clean mark → lease revoked, so that
nobody is elected in its place while its last answers are still on their way. It is the start's order, reversed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from libs.cluster.image_follower import ImageFollower
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import StopFailed, Stops
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.process import refuse_newer_cluster
from libs.runtime.starting_anew import start_anew
from libs.telemetry.logs import fields
from services.storage.config import StorageConfig
from services.storage.core.lagging import lagging_replicas
from services.storage.core.node_life import NodeState, NodeStep, after
from services.storage.disks.disk_opening import open_directories
from services.storage.environment import Environment
from services.storage.opened_node import OpenedNode
from services.storage.partition.late_transactions import LateTransactions
from services.storage.partition.partition_meters import PartitionMeters
from services.storage.partition.partition_table import PartitionTable
from services.storage.registration import StorageRegistration
from services.storage.storage_meters import StorageMeters

log = logging.getLogger("process")


class StorageNode:
    """The storage node. `start` returns when it is registered; `ready` tells its progress until then. Call `stop` after every
    start, also after one that failed."""

    def __init__(self, config: StorageConfig, environment: Environment) -> None:
        incarnation = environment.identity.incarnation
        self._config, self.environment = config, environment
        self._incarnation = incarnation
        self._state = NodeState.CREATED
        self._stops = Stops()
        self._starting: asyncio.Task[Any] | None = None
        """The task in which `start` runs."""
        self._start_ended, self._ended = asyncio.Event(), asyncio.Event()
        self._opened: OpenedNode | None = None
        marks = MetadataMarks(environment.fs, config.data_dir)
        self.image_follower = ImageFollower(environment.store, on_went_back=start_anew(environment.die, marks))
        self.registration = StorageRegistration(config, environment, self.image_follower, marks)
        self.partitions = PartitionTable(config.node_id, incarnation, config.topic_series_max)
        self.meters = StorageMeters(environment.metrics, self.partitions)
        environment.metrics.registry.register(PartitionMeters(self.partitions, config.partition_series_max))
        environment.metrics.registry.register(LateTransactions(self.partitions, environment.clock))
        self._controllers = Controllers(
            self.registration.hello,
            environment.identity.host_id,
            environment.transport,
            lambda: self._opened.fetchers.unreachable() if self._opened is not None else (),
        )

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def opened(self) -> OpenedNode:
        """The node with its disks. Only there once its log directories are open."""
        assert self._opened is not None, self._state
        return self._opened

    # -- views ------------------------------------------------------------------------------------------------------------

    def ready(self) -> tuple[bool, str]:
        match self._state:
            case NodeState.SERVING:
                return self.opened.ready()
            case NodeState.OPENING_LOGS:
                return False, f"{self._state.value}: {self.opened.opening_progress()}"
            case _:
                return False, self._state.value

    def in_sync(self) -> tuple[bool, str]:
        """Readiness, and every replica of this node in sync: the node that a rolling restart stops next may then be another."""
        ready, reason = self.ready()
        if not ready:
            return False, reason
        lagging = list(lagging_replicas(self.partitions.image, self._config.node_id, self._incarnation))
        return not lagging, f"{len(lagging)} replicas are not in sync, such as {lagging[0]}" if lagging else ""

    def debug(self) -> Mapping[str, Callable[[], object]]:
        """For the admin port's /debug."""

        def of_opened(view: Callable[[OpenedNode], object]) -> Callable[[], object]:
            return lambda: view(self._opened) if self._opened is not None else None

        return {
            "partitions": self.partitions.debug,
            "following": of_opened(lambda opened: opened.fetchers.debug()),
            "moves": of_opened(lambda opened: opened.moves.debug()),
            "cleaner": of_opened(lambda opened: opened.background.cleaning.debug()),
        }

    # -- start ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the node. Raises DirectoryLocked, DirectoryOwnerMismatch, DirectoryDamaged, OSError if it cannot run here.

        A stop that comes meanwhile cancels the task that called this.
        """
        self._take(NodeStep.START)
        self._starting = asyncio.current_task()
        try:
            await self._start()
        finally:
            self._starting = None
            self._start_ended.set()

    async def _start(self) -> None:
        stops, image_follower, registration = self._stops, self.image_follower, self.registration
        stops.add(image_follower.close)
        await registration.first_image()
        refuse_newer_cluster(image_follower.image, self.environment.identity.version)
        cluster_id = await self._cluster_id()
        self._take(NodeStep.IMAGE_CAME)
        await registration.refuse_if_running()
        # The heartbeats go on until the end: a silent node would be taken for dead while its logs are closed.
        stops.add(self._controllers.close)
        self._controllers.follow(image_follower.image)
        stops.add(image_follower.subscribe(lambda _, new: self._controllers.follow(new)))
        # It leaves when its logs are closed: nobody is elected in its place before.
        stops.add(registration.leave)
        registration.read_survival()
        directories = await open_directories(self._config, self.environment, cluster_id, self.meters.offline, stops)
        self._opened = opened = OpenedNode(
            self._config,
            self.environment,
            directories,
            image_follower=image_follower,
            registration=registration,
            controllers=self._controllers,
            partitions=self.partitions,
            meters=self.meters,
            stops=stops,
        )
        self._take(NodeStep.DIRECTORIES_OPENED)
        await opened.open_replicas()
        self._take(NodeStep.LOGS_OPENED)
        await opened.listen()
        await opened.register()
        self._take(NodeStep.REGISTERED)
        log.info("serving", extra=fields(incarnation=self._incarnation, logs=len(opened.open_logs.all())))

    async def _cluster_id(self) -> str:
        """The id of the cluster, which the first controller gives. Until then there is nothing to serve."""
        while not self.image_follower.image.cluster_id:
            changed = asyncio.Event()
            unsubscribe = self.image_follower.subscribe(lambda old, new, changed=changed: changed.set())  # type: ignore[misc]
            try:
                if not self.image_follower.image.cluster_id:
                    await changed.wait()
            finally:
                unsubscribe()
        return self.image_follower.image.cluster_id

    # -- stop -------------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stops cleanly: acknowledged records are on disk, and the next start reads nothing again.

        It first ends a start that still runs. A second stop waits for the first. Raises StopFailed.
        """
        if self._state in (NodeState.STOPPING, NodeState.STOPPED):
            await self._ended.wait()
            return
        self._take(NodeStep.STOP)
        try:
            if self._starting is not None:
                self._starting.cancel()
                await self._start_ended.wait()
            await self._stops.run()
            self._take(NodeStep.ALL_STOPPED)
        finally:
            self._ended.set()
        if self._stops.failed:
            raise StopFailed("parts of the storage node did not stop cleanly")

    def _take(self, step: NodeStep) -> None:
        self._state = after(self._state, step)
