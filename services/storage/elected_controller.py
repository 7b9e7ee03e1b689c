"""The way to whoever is the elected controller now: one connection, shared by all who ask it for something."""

from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import CONTROLLER
from libs.rpc.client import Response, RpcClient
from libs.rpc.errors import RpcFailure
from libs.rpc.schema import pack

TIMEOUT_S = 5.0


class ElectedControllerClient:
    """Goes by the image. A controller that is no longer elected answers 41 NOT_CONTROLLER: the image will name another."""

    def __init__(self, image: Callable[[], ClusterImage], connect: Callable[[str], RpcClient], host_id: str) -> None:
        self._image = image
        self._connect = connect
        self._host_id = host_id
        self._client: RpcClient | None = None
        self._address = ""

    async def call(self, method: str, request: object, *, timeout_s: float = TIMEOUT_S) -> Response:
        """`request` is a contract. Raises RpcFailure, also when nobody is elected."""
        client = await self._reach()
        return await client.call(method, pack(request), timeout_s=timeout_s)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _reach(self) -> RpcClient:
        image = self._image()
        elected = image.controller
        member = image.members(CONTROLLER).get(elected.node_id) if elected is not None else None
        if member is None:
            raise RpcFailure("no controller is elected", sent=False)
        address = address_of(member, self._host_id)
        if not address:
            raise RpcFailure(f"no address of controller {member.node_id} leads to it from here", sent=False)
        former = self._client
        if former is None or self._address != address:
            self._client, self._address = self._connect(address), address
            if former is not None:
                await former.close()
        assert self._client is not None
        return self._client
