"""Tells the elected controller which replicas this node cannot serve, until the states show it.

For good, since their logs are damaged; or for now, since their disk hangs or does not let them be opened: those leave only where
another member is left, for the last one has nobody to copy from, and will serve again. A log that a read found damaged is among
those too: the last one goes on with what can be read of it.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from libs.rpc.contracts.controller import WITHDRAW, Withdraw
from libs.rpc.errors import RpcFailure
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from services.storage.core.leadership import hosts
from services.storage.hosted import Key

log = logging.getLogger(__name__)

BATCH = 1000
RETRY_S = 1.0


class Withdrawals:
    """`withdraw` for a damaged log, `served` if it opens after all; `stand_down` and `stand_up` for what may pass. As often as it
    takes."""

    def __init__(self, node_id: int, incarnation: int, image: Callable[[], ClusterImage], controller: Controllers) -> None:
        self._caller = InSync(node_id, incarnation)
        self._image = image
        self._controller = controller
        self._damaged: dict[Key, None] = {}
        self._standing_down: dict[Key, None] = {}
        self._repaired: dict[Key, None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def tell_first(self) -> None:
        """To be called before this node registers; returns once a controller has heard of what others hold too. As soon as it is
        registered it may be elected, with nobody else left in the ISR."""
        told: set[Key] = set()
        while unserved := [key for key in {**self._damaged, **self._standing_down} if key not in told and self._is_shared(key)]:
            batch = unserved[:BATCH]
            try:
                await self._controller.call(WITHDRAW, self._request(batch, []))
            except RpcFailure as error:
                log.info("registration waits for a controller", extra=fields(reason=error, damaged=len(batch)))
                await asyncio.sleep(RETRY_S)
            else:
                told.update(batch)

    def start(self) -> None:
        """This node is registered."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="withdrawn replicas")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def withdraw(self, key: Key) -> None:
        if key not in self._damaged:
            self._damaged[key] = None
            self._repaired.pop(key, None)
            self._changed.set()

    def served(self, key: Key) -> None:
        if key in self._damaged:
            del self._damaged[key]
            self._repaired[key] = None
            self._changed.set()

    def stand_down(self, key: Key) -> None:
        self._standing_down[key] = None
        self._changed.set()

    def stand_up(self, key: Key) -> None:
        self._standing_down.pop(key, None)

    def follow_image(self) -> None:
        """A state may count on a replica that it has been told of: it is told again."""
        if self._damaged or self._standing_down or self._repaired:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            batch, repaired = self._batch(), self._taken_back()
            if not batch and not repaired:
                continue
            try:
                await self._controller.call(WITHDRAW, self._request(batch, repaired))
            except RpcFailure as error:
                log.info("withdrawn replicas not told yet", extra=fields(reason=error, partitions=len(batch)))
                await asyncio.sleep(RETRY_S)
                self._changed.set()
                continue
            log.warning("replicas withdrawn", extra=fields(partitions=len(batch), restored=len(repaired)))

    def _request(self, batch: list[Key], repaired: list[Key]) -> Withdraw:
        damaged = tuple(key for key in batch if key in self._damaged)
        for_now = tuple(key for key in batch if key not in self._damaged)
        return Withdraw(*self._caller, damaged, tuple(repaired), for_now)

    def _batch(self) -> list[Key]:
        image = self._image()
        batch = [key for key in self._damaged if self._counts_on(image.partition(*key))]
        batch += filter(self._is_shared, self._standing_down)
        return batch[:BATCH]

    def _is_shared(self, key: Key) -> bool:
        """This replica is in the ISR, and not alone."""
        state = self._image().partition(*key)
        return state is not None and len(state.isr) > 1 and self._counts_on(state)

    def _taken_back(self) -> list[Key]:
        """Those whose states still say that they are damaged. One that is not told yet may say so later."""
        image = self._image()
        states = ((key, image.partition(*key)) for key in self._repaired)
        return [key for key, state in states if state is not None and self._caller in state.withdrawn][:BATCH]

    def _counts_on(self, state: PartitionState | None) -> bool:
        if state is None or not hosts(state, self._caller.node_id) or self._caller in state.withdrawn:
            return False
        return any(member.node_id == self._caller.node_id for member in state.isr)
