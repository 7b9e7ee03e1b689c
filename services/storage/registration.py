"""A storage node's registration: a member record with its log directories, and what its former lives may have lost."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from libs.cluster.configs.definitions import without_secrets
from libs.cluster.image_follower import ImageFollower
from libs.cluster.member_addresses import address_of
from libs.cluster.records import STORAGE, Member
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.storage import LOG_ENDS, LogEnds
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.messages.schema import pack
from libs.rpc.server.rpc_server import Accept, Hello, RpcServer
from libs.runtime.clean_shutdown import forget_survival, survived_from
from libs.runtime.metadata_marks import MetadataMarks
from libs.runtime.process import lent_methods
from libs.runtime.registration import Registration
from services.storage.config import StorageConfig
from services.storage.environment import Environment

log = logging.getLogger("process")

PROBE_S = 1.0
TIMEOUT_S = 1.0


class NodeIdTaken(Exception):
    """A live process has our id. It stays, and this one must not run."""


class StorageRegistration:
    """The registration: `listen`, `register`, `stop_listening`, and last of all `leave`. Nobody is elected in its place
    before."""

    def __init__(self, config: StorageConfig, environment: Environment, follower: ImageFollower, marks: MetadataMarks) -> None:
        self._config, self._identity, self._environment, self._image_follower = (
            config,
            environment.identity,
            environment,
            follower,
        )
        self._registration: Registration | None = None
        self._subscriptions: list[Callable[[], None]] = []
        self._survived_from = 0
        self._marks = marks

    @property
    def server(self) -> RpcServer | None:
        """None before `listen`."""
        return self._registration.server if self._registration is not None else None

    @property
    def member(self) -> Member | None:
        """The member record, also before it is registered. None before `listen`."""
        return self._registration.member if self._registration is not None else None

    async def first_image(self) -> None:
        """Waits for an image of the store's own, and no peer's.

        Replicas that an older image does not name would pass for strays. And a node that cannot register may neither lead nor
        follow (docs/adr/0015).
        """
        message = "waits for the metadata store, without which a storage node may neither lead nor follow"
        warning = asyncio.get_running_loop().call_later(TIMEOUT_S, log.warning, message)
        try:
            await self._image_follower.start()
        finally:
            warning.cancel()

    async def refuse_if_running(self) -> None:
        """Raises NodeIdTaken if another process answers for this node id. It comes first of all.

        A former incarnation is dead, whatever its lease says. A live one is another process, with other disks or a copy of ours.
        """
        config, image = self._config, self._image_follower.image
        other = image.members(STORAGE).get(config.node_id)
        address = address_of(other, self._identity.host_id) if other is not None else ""
        if other is None or other.incarnation == self._identity.incarnation or not address:
            return
        hello = Hello(STORAGE, -1, self._identity.incarnation, self._identity.version, image.feature_level, image.cluster_id)
        client = RpcClient(address, hello, self._environment.transport)
        with contextlib.suppress(RpcFailure):
            await client.call(LOG_ENDS, pack(LogEnds(())), timeout_s=PROBE_S)
        await client.close()
        if client.peer is not None and client.peer.incarnation == other.incarnation:
            raise NodeIdTaken(f"storage node {config.node_id} runs already, at {address}: give this one an id of its own")

    def read_survival(self) -> None:
        """Reads how much an earlier incarnation may have lost, before log directories are opened. Raises OSError."""
        config, environment = self._config, self._environment
        self._survived_from = survived_from(
            environment.fs,
            config.data_dir,
            self._identity.incarnation,
            page_cache_of=environment.page_cache_of,
            directories=config.directories,
        )

    def forget_survival(self) -> None:
        """Notes that page caches may lack records, since a log directory failed. Blocks. Raises OSError."""
        forget_survival(self._environment.fs, self._config.data_dir)

    def hello(self) -> Hello:
        return self._identity.hello(self._image_follower.image)

    async def listen(
        self,
        methods: Mapping[str, Accept],
        directory_ids: tuple[str, ...],
        full: tuple[str, ...],
        went_back: tuple[str, ...],
        *,
        on_turn_start: Callable[[], None],
        on_turn_end: Callable[[], None],
    ) -> None:
        config = self._config
        server = RpcServer(
            self.hello,
            {**methods, **lent_methods(self._environment, lambda: self._image_follower.image)},
            transport=self._environment.transport,
            max_frame=config.rpc_max_frame,
            on_turn_start=on_turn_start,
            on_turn_end=on_turn_end,
            denied=self._environment.denied,
        )
        member = replace(
            self._identity.member(),
            rack=config.rack,
            configs=without_secrets(config.static),
            survived_from=self._survived_from,
            seen=self._marks.former,
            went_back=went_back,
            **self._directories(directory_ids, full),
        )
        self._registration = Registration(server, member, self._environment.store, config.lease_s, self._environment.die)
        await self._registration.listen(config)

    async def register(self) -> None:
        assert self._registration is not None
        self._subscriptions.append(self._image_follower.subscribe(self._registration.follow))
        await self._registration.register()
        self._subscriptions.append(self._image_follower.subscribe(self._marks.follow))

    @property
    def registered(self) -> bool:
        return self._registration is not None and self._registration.registered

    async def report_directories(self, directory_ids: tuple[str, ...], full: tuple[str, ...]) -> None:
        """Reports the directories that still work, and the paths of full ones. It must not register with a failed one."""
        if self._registration is not None:
            await self._registration.update(**self._directories(directory_ids, full))

    async def report_slow_followers(self, nodes: tuple[int, ...]) -> None:
        """Reports the followers that hold up acks=all of partitions that this node leads, again and again."""
        if self._registration is not None:
            await self._registration.update(slow_followers=nodes)

    def _directories(self, directory_ids: tuple[str, ...], full: tuple[str, ...]) -> dict[str, Any]:
        """The member's fields about log directories: those that work, and the paths of full ones."""
        failed = len(self._config.directories) - len(directory_ids)
        return {"log_dirs": directory_ids, "failed_dirs": failed, "full_dirs": full}

    async def announce_stop(self) -> bool:
        """Asks for its leaderships to be moved. False: it is not registered, and not needed."""
        if self._registration is None or not self.registered:
            return False
        await self._registration.update(stopping=True)
        return True

    async def stop_listening(self) -> None:
        if self.server is not None:
            await self.server.close(drain_s=2.0)

    async def leave(self) -> None:
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._marks.close()
        if self._registration is not None:
            await self._registration.leave()
