"""The registration of a process: the addresses where it answers RPC, and its member record in the cluster."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.membership import Membership, Superseded
from libs.cluster.records import Member
from libs.cluster.store import MetadataStore
from libs.host_port import with_port
from libs.rpc.server.rpc_server import RpcServer
from libs.runtime.service_config import ServiceConfig


class Registration:
    """Call `listen`, then `register`. At the end `leave`: the member record goes at once, not when its lease expires."""

    def __init__(
        self,
        server: RpcServer,
        member: Member,
        store: MetadataStore,
        ttl_s: int,
        die: Callable[[BaseException], None],
    ) -> None:
        """`member` lacks its RPC addresses. `die` ends the process when another one has taken its place."""
        self.server = server
        self.member = member
        self._store = store
        self._ttl_s = ttl_s
        self._die = die
        self.superseded_by: Member | None = None
        """The process that took this one's place."""
        self._membership: Membership | None = None

    @property
    def registered(self) -> bool:
        return self._membership is not None and self._membership.registered

    async def listen(self, config: ServiceConfig) -> None:
        """Opens the RPC server's addresses. Raises OSError if one is taken."""
        unix = await self.server.listen(f"unix:{config.rpc_unix}") if config.rpc_unix else ""
        tcp = await self.server.listen(f"tcp:{config.rpc_tcp}") if config.rpc_tcp else ""
        if tcp and config.rpc_advertised_host:
            tcp = f"tcp:{with_port(config.rpc_advertised_host, tcp.rpartition(':')[2])}"
        self.member = replace(self.member, unix_address=unix, tcp_address=tcp)

    async def register(self) -> None:
        """Returns once registered, however long that takes."""
        self._membership = Membership(self._store, self.member, self._ttl_s, on_superseded=self._superseded)
        await self._membership.start()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """A subscriber of the image: it shows when another process replaced this one, or a controller took it for dead."""
        if self._membership is not None:
            self._membership.follow(old, new)

    async def update(self, **changes: Any) -> None:
        """Changes fields of the member record. Returns once they are written; before `register` nobody need hear of them."""
        self.member = replace(self.member, **changes)
        if self._membership is not None:
            await self._membership.update(self.member)

    def _superseded(self, other: Member) -> None:
        self.superseded_by = other
        self._die(Superseded(other))

    async def leave(self) -> None:
        if self._membership is not None:
            await self._membership.close()
