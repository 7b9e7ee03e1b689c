"""What others see of this node: the addresses where it answers, and its member record in the cluster."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from libs.cluster.follower import ImageFollower
from libs.cluster.membership import Membership, Superseded
from libs.cluster.reaching import address_of
from libs.cluster.records import STORAGE, Member
from libs.rpc.client import RpcClient
from libs.rpc.contracts.storage import LOG_ENDS, LogEnds
from libs.rpc.errors import RpcFailure
from libs.rpc.schema import pack
from libs.rpc.server import Accept, Hello, RpcServer
from libs.runtime.peers import ImageLending
from libs.runtime.survival import forget_survival, survived_from
from services.storage.config import StorageConfig
from services.storage.surroundings import Surroundings

log = logging.getLogger(__name__)

PROBE_S = 1.0
PATIENCE_S = 1.0


class NodeIdTaken(Exception):
    """A process with our id is alive. It stays, and we must not run."""


class Presence:
    """`listen`, then `register`; `hang_up`, then `leave`, last of all: nobody is elected in its place before."""

    def __init__(self, config: StorageConfig, incarnation: int, world: Surroundings, follower: ImageFollower) -> None:
        self._config, self._incarnation, self._world, self._follower = config, incarnation, world, follower
        self.server: RpcServer | None = None
        self._membership: Membership | None = None
        self._member: Member | None = None
        self._survived_from = 0

    async def first_image(self) -> None:
        """The store's own, and no peer's: what an older image does not name would be taken for strays, and a node that cannot
        register may neither lead nor follow (docs/adr/0015)."""
        what = "waits for the metadata store, without which a storage node may neither lead nor follow"
        telling = asyncio.get_running_loop().call_later(PATIENCE_S, log.warning, what)
        try:
            await self._follower.start()
        finally:
            telling.cancel()

    async def look_for_another(self) -> None:
        """To be called first of all. A former life of this node is dead, whatever its lease says; one that answers is another
        process, with other disks or with a copy of ours. Raises NodeIdTaken."""
        config, image = self._config, self._follower.image
        other = image.members(STORAGE).get(config.node_id)
        address = address_of(other, self._world.host_id) if other is not None else ""
        if other is None or other.incarnation == self._incarnation or not address:
            return
        asker = Hello(STORAGE, -1, self._incarnation, self._world.version, image.feature_level, image.cluster_id)
        client = RpcClient(address, asker, self._world.transport)
        with contextlib.suppress(RpcFailure):
            await client.call(LOG_ENDS, pack(LogEnds(())), timeout_s=PROBE_S)
        await client.close()
        if client.peer is not None and client.peer.incarnation == other.incarnation:
            raise NodeIdTaken(f"storage node {config.node_id} runs already, at {address}: give this one an id of its own")

    def look_back(self) -> None:
        """To be called before the log directories are opened. Raises OSError."""
        config, world = self._config, self._world
        self._survived_from = survived_from(
            *(world.fs, config.data_dir, self._incarnation), boot_id=world.boot_id, directories=config.directories
        )

    def doubt_survival(self) -> None:
        """A log directory failed. Blocks. Raises OSError."""
        forget_survival(self._world.fs, self._config.data_dir)

    def hello(self) -> Hello:
        image = self._follower.image
        return Hello(STORAGE, self._config.node_id, self._incarnation, self._world.version, image.feature_level, image.cluster_id)

    async def listen(
        self, methods: Mapping[str, Accept], on_turn_end: Callable[[], None], directory_ids: tuple[str, ...]
    ) -> None:
        config = self._config
        lending = ImageLending(lambda: self._follower.image)
        self.server = RpcServer(
            self.hello,
            {**methods, **lending.methods},
            transport=self._world.transport,
            max_frame=config.rpc_max_frame,
            on_turn_end=on_turn_end,
        )
        unix = tcp = ""
        if config.rpc_unix:
            unix = await self.server.listen(f"unix:{config.rpc_unix}")
        if config.rpc_tcp:
            tcp = await self.server.listen(f"tcp:{config.rpc_tcp}")
        self._member = Member(
            role=STORAGE,
            node_id=config.node_id,
            incarnation=self._incarnation,
            host_id=self._world.host_id,
            tcp_address=tcp,
            unix_address=unix,
            rack=config.rack,
            log_dirs=directory_ids,
            configs=config.static,
            version=self._world.version,
            survived_from=self._survived_from,
            failed_dirs=self._not_among(directory_ids),
        )

    async def register(self) -> None:
        assert self._member is not None
        self._membership = Membership(self._world.store, self._member, self._config.member_ttl_s, on_superseded=self._superseded)
        self._follower.subscribe(self._membership.follow)
        await self._membership.start()

    def _superseded(self, other: Member) -> None:
        self._world.die(Superseded(other))

    async def tell_directories(self, directory_ids: tuple[str, ...]) -> None:
        """Those that still work. Before it registers nobody need hear of it, but it must not register with another one."""
        if self._member is not None:
            self._member = replace(self._member, log_dirs=directory_ids, failed_dirs=self._not_among(directory_ids))
            if self._membership is not None:
                await self._membership.update(self._member)

    def _not_among(self, directory_ids: tuple[str, ...]) -> int:
        return len(self._config.directories) - len(directory_ids)

    async def tell_stopping(self) -> bool:
        """Asks for its leaderships to be moved. False if it is not registered: nobody counts on it."""
        if self._membership is None or self._member is None or not self._membership.registered:
            return False
        self._member = replace(self._member, stopping=True)
        await self._membership.update(self._member)
        return True

    async def hang_up(self) -> None:
        if self.server is not None:
            await self.server.close(drain_s=2.0)

    async def leave(self) -> None:
        if self._membership is not None:
            await self._membership.close()
