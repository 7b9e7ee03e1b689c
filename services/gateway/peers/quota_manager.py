"""The quota manager as this gateway sees it: asks for tokens, and what came of them.

Nobody is asked while no client has a limit. Without an answer a gateway spends limit / N by itself (`core/quota_slices.py`).
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, QUOTA_MANAGER
from libs.cluster.shard_owners import Owner
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.quotas import ASK, Ask, Grant, Granted, Need
from libs.rpc.messages.errors import ContractError, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.transport.transport import Transport
from libs.runtime.member_clients import MemberClients
from libs.telemetry.limited_lines import LimitedLines
from services.gateway.core.quota_slices import ANSWER_S_MAX, ASK_EVERY_S, CALL_EVERY_S, QuotaSlices

log = logging.getLogger("quotas")

NONSENSE_LOG_S: Final = 10.0
ROUNDING: Final = 1.000001
"""Sums of fractions may exceed what was asked for by a little."""
VANISHED_S: Final = 10.0
"""How long a gateway whose registration has ended counts on."""


class QuotaManager:
    """The asks of one gateway. Call `follow` with each image, and `close` at the end."""

    def __init__(
        self,
        slices: QuotaSlices,
        hello: Callable[[], Hello],
        host_id: str,
        transport: Transport,
        die: Callable[[BaseException], None],
    ) -> None:
        """`die` ends the process, after an unexpected failure."""
        self._die = die
        self._slices = slices
        self._clients = MemberClients(QUOTA_MANAGER, hello, host_id, transport)
        self._loop = asyncio.get_running_loop()
        self._lines = LimitedLines(log, NONSENSE_LOG_S, self._loop)
        self._elected: Owner | None = None
        self._task: asyncio.Task[None] | None = None
        self._in_need = asyncio.Event()
        self._found = 1  # gateways, in the last image
        self._fewer: asyncio.TimerHandle | None = None

    def client(self, node_id: int) -> RpcClient | None:
        """The client of a quota manager, elected or not."""
        return self._clients.client(node_id)

    def wake(self) -> None:
        """Asks as soon as it may: an entity is in need."""
        self._in_need.set()

    def follow(self, image: ClusterImage, *, is_limited: bool) -> None:
        """`is_limited`: some client has a limit that gateways share."""
        self._clients.follow(image)
        elected = image.quota_manager
        self._elected = Owner(elected.node_id, elected.incarnation) if elected is not None else None
        self._count(max(1, len(image.members(GATEWAY))))
        if is_limited and self._task is None:
            self._task = self._loop.create_task(self._ask_on(), name="asks for quotas")
            self._task.add_done_callback(self._ended)
        elif not is_limited and self._task is not None:
            self._task.cancel()
            self._task = None

    def _count(self, found: int) -> None:
        """An outage of the store ends the registrations of gateways that go on serving. If each believed to be the only one, each
        would spend the whole limit by itself. So those that vanish count on until they surely have registered again."""
        self._found = found
        if self._fewer is None and found < self._slices.gateways:
            self._fewer = self._loop.call_later(VANISHED_S, self._count_fewer)
        self._slices.gateways = max(found, self._slices.gateways)

    def _count_fewer(self) -> None:
        self._fewer, self._slices.gateways = None, self._found

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(error)

    async def close(self) -> None:
        if self._fewer is not None:
            self._fewer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._clients.close()

    async def _ask_on(self) -> None:
        slices, in_need = self._slices, self._in_need
        while True:
            in_need.clear()
            ask = slices.next_ask(self._loop.time())
            if ask is not None:
                granted = await self._answer_to(ask)
                if granted is None:
                    slices.failed(ask)
                else:
                    slices.answered(ask, granted.grants, self._loop.time())
            await asyncio.sleep(ASK_EVERY_S)
            if not slices.in_need:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CALL_EVERY_S - ASK_EVERY_S):
                        await in_need.wait()

    async def _answer_to(self, ask: Ask) -> Granted | None:
        client = self._clients.client_of(self._elected) if self._elected is not None else None
        if client is None:
            return None
        try:
            response = await client.call(ASK, ask, timeout_s=ANSWER_S_MAX)
            granted = unpack(Granted, response.body)
            if granted.error:
                return None
            _expect_sane(ask, granted)
        except ContractError as error:
            self._note_nonsense(str(error))
            return None
        except (RpcError, RpcFailure):
            return None
        return granted

    def _note_nonsense(self, detail: str) -> None:
        node_id = self._elected.node_id if self._elected is not None else None
        self._lines.write(node_id, logging.WARNING, "quota manager's answer ignored", node=node_id, detail=detail)


def _expect_sane(ask: Ask, granted: Granted) -> None:
    """Raises ContractError for an answer that no quota manager of ours sends."""
    if len(granted.grants) != len(ask.needs):
        raise ContractError(f"{len(granted.grants)} grants for {len(ask.needs)} needs")
    for need, grant in zip(ask.needs, granted.grants, strict=True):
        if not _is_sane(need, grant):
            raise ContractError(
                f"{grant.tokens} tokens for {need.wanted} wanted and {need.debt} owed, {grant.owed_elsewhere} elsewhere"
            )


def _is_sane(need: Need, grant: Grant) -> bool:
    return 0.0 <= grant.tokens <= (need.wanted + need.debt) * ROUNDING and 0.0 <= grant.owed_elsewhere < math.inf
