"""The way to the controllers: one connection to each of them, kept warm by heartbeats, and shared by all who ask for something.

Rule (DESIGN section 9): every process heartbeats all controllers, so that whoever is elected next knows already who is alive.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import CONTROLLER
from libs.rpc.client import Hello, Response, RpcClient
from libs.rpc.contracts.controller import HEARTBEAT, Heartbeat, HeartbeatReply
from libs.rpc.errors import ContractError, DeadlineExceeded, RpcFailure
from libs.rpc.schema import pack, unpack
from libs.rpc.transport import Transport
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

INTERVAL_S = 0.3
ANSWER_S_MAX = 3.0
"""A heartbeat that has no answer for so long went into a connection that leads nowhere any more."""
TIMEOUT_S = 5.0


class _Line:
    """To one controller. A new one is made when it moves."""

    def __init__(self, node_id: int, address: str, connect: Callable[[], RpcClient], beat: Callable[[], Heartbeat]) -> None:
        self.node_id, self.address = node_id, address
        self.client = connect()
        self.elected: bool | None = None
        """What it said last; None: it does not answer."""
        self._connect, self._beat = connect, beat
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"heartbeats to controller {node_id}")

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self.client.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            try:
                answer = await self.client.call(HEARTBEAT, self._beat(), timeout_s=ANSWER_S_MAX)
                self.elected = unpack(HeartbeatReply, answer.body).elected
            except DeadlineExceeded:
                self.elected = None
                former, self.client = self.client, self._connect()
                await former.close()
            except (RpcFailure, ContractError):
                self.elected = None  # it connects again by itself, with the next one
            await asyncio.sleep(max(0.0, due - loop.time()))


class Controllers:
    """Goes by the image: call `follow` with each new one. `role` may be a controller's own: it does not call itself."""

    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._image = ClusterImage()
        self._lines: dict[int, _Line] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._unreachable: set[tuple[int, int]] = set()
        self._closed = False

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if self._closed or image.members(CONTROLLER) is before.members(CONTROLLER):
            return
        ours = self._hello()
        wanted = {node_id: address_of(member, self._host_id) for node_id, member in image.members(CONTROLLER).items()}
        if ours.role == CONTROLLER:
            wanted.pop(ours.node_id, None)
        for node_id, line in list(self._lines.items()):
            # One whose lease ran out may live, and still be elected: its line stays until it is known to have moved.
            if wanted.get(node_id, line.address) != line.address:
                self._hang_up(self._lines.pop(node_id))
        for node_id, address in wanted.items():
            life = (node_id, image.members(CONTROLLER)[node_id].incarnation)
            if not address and life not in self._unreachable:
                self._unreachable.add(life)
                log.warning("no address of a controller leads to it from here", extra=fields(node=node_id))
            if address and node_id not in self._lines:
                self._lines[node_id] = self._line(node_id, address)

    def elected(self) -> RpcClient | None:
        """To whoever is elected, as far as the image tells."""
        elected = self._image.controller
        line = self._lines.get(elected.node_id) if elected is not None else None
        return line.client if line is not None else None

    def denies(self, node_id: int) -> bool:
        """Whether that controller answers, and says that it is not elected."""
        line = self._lines.get(node_id)
        return line is not None and line.elected is False

    async def call(self, method: str, request: object, *, timeout_s: float = TIMEOUT_S) -> Response:
        """Asks the elected controller; `request` is a contract. Raises RpcFailure, also when nobody is elected.

        One that is elected no longer answers 41 NOT_CONTROLLER: the image will name another.
        """
        client = self.elected()
        if client is None:
            raise RpcFailure("no controller is elected, or none that can be reached from here", sent=False)
        return await client.call(method, pack(request), timeout_s=timeout_s)

    async def close(self) -> None:
        self._closed = True
        for line in self._lines.values():
            self._hang_up(line)
        self._lines.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def _line(self, node_id: int, address: str) -> _Line:
        def connect() -> RpcClient:
            return RpcClient(address, self._hello, self._transport, expected=(CONTROLLER, node_id))

        return _Line(node_id, address, connect, self._heartbeat)

    def _heartbeat(self) -> Heartbeat:
        ours = self._hello()
        return Heartbeat(ours.role, ours.node_id, ours.incarnation, self._image.revision)

    def _hang_up(self, line: _Line) -> None:
        task = asyncio.get_running_loop().create_task(line.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
