"""What others see of this gateway: its member record, which names what clients reach, and where controllers find it alive."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.membership import Membership
from libs.cluster.records import GATEWAY, Listener, Member
from libs.cluster.store import MetadataStore
from libs.rpc.server import Accept, Hello, RpcServer
from libs.rpc.transport import Transport
from services.gateway.config import GatewayConfig


class Presence:
    """`listen`, then `register`; `leave`, first of all, and `close`, last of all."""

    def __init__(
        self,
        config: GatewayConfig,
        hello: Callable[[], Hello],
        transport: Transport,
        store: MetadataStore,
        host_id: str,
        on_superseded: Callable[[Member], None],
        methods: Mapping[str, Accept],
    ) -> None:
        self._config, self._store, self._on_superseded = config, store, on_superseded
        self._server = RpcServer(hello, methods, transport=transport)
        ours = hello()
        port_base = config.advertised_port_base or config.port_base
        self.listener = Listener(config.listener_name, config.advertised_host, port_base, "PLAINTEXT")
        self._member = Member(
            GATEWAY, ours.node_id, ours.incarnation, host_id, rack=config.rack, listeners=(self.listener,), version=ours.version
        )
        self._membership: Membership | None = None

    async def listen(self) -> None:
        """Raises OSError for an address that is taken."""
        config = self._config
        unix = await self._server.listen(f"unix:{config.rpc_unix}") if config.rpc_unix else ""
        tcp = await self._server.listen(f"tcp:{config.rpc_tcp}") if config.rpc_tcp else ""
        self._member = replace(self._member, unix_address=unix, tcp_address=tcp)

    async def register(self) -> None:
        """Returns once registered, however long that takes."""
        self._membership = Membership(self._store, self._member, self._config.member_ttl_s, on_superseded=self._on_superseded)
        await self._membership.start()

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Subscribe this to the image."""
        if self._membership is not None:
            self._membership.follow(old, new)

    async def leave(self) -> None:
        """Metadata no longer names it."""
        if self._membership is not None:
            await self._membership.close()

    async def close(self) -> None:
        await self._server.close(drain_s=0.0)
