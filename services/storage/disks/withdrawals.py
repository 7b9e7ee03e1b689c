"""Withdrawals: this node tells the elected controller which replicas it cannot serve, until the states show it.

A replica with a damaged log is withdrawn for good. One whose disk hangs, or whose log cannot be opened for now, only leaves the
ISR while another member is left. The last member has nobody to copy from, and will serve again. The same holds for a log that a
read found damaged: the last member serves what can be read of it.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from libs.rpc.contracts.controller import WITHDRAW, Withdraw
from libs.rpc.messages.errors import RpcFailure
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from services.storage.core.replication.leadership import hosts
from services.storage.partition.partition import Key

log = logging.getLogger("disks")

BATCH = 1000
RETRY_S = 1.0


class ReplicaWithdrawals:
    """The withdrawals, reported as often as it takes.

    `withdraw` is for a damaged log, `reinstate` if it opens after all. `suspend` and `resume` are for trouble that may pass.
    """

    def __init__(self, node_id: int, incarnation: int, image: Callable[[], ClusterImage], controller: Controllers) -> None:
        self._caller = InSync(node_id, incarnation)
        self._image = image
        self._controller = controller
        self._damaged: dict[Key, None] = {}
        self._suspended: dict[Key, None] = {}
        self._repaired: dict[Key, None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def report_before_registration(self) -> None:
        """Reports, before this node registers, the replicas that others hold too; returns when a controller has heard.

        Once registered, this node may be elected, and be alone in the ISR.
        """
        reported: set[Key] = set()
        while unreported := [key for key in {**self._damaged, **self._suspended} if key not in reported and self._is_shared(key)]:
            batch = unreported[:BATCH]
            try:
                await self._controller.call(WITHDRAW, self._request(batch, []))
            except RpcFailure as error:
                log.info("registration waits for a controller", extra=fields(reason=error, damaged=len(batch)))
                await asyncio.sleep(RETRY_S)
            else:
                reported.update(batch)

    def start(self) -> None:
        """Begins to report: this node is registered."""
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

    def reinstate(self, key: Key) -> None:
        if key in self._damaged:
            del self._damaged[key]
            self._repaired[key] = None
            self._changed.set()

    def suspend(self, key: Key) -> None:
        self._suspended[key] = None
        self._changed.set()

    def resume(self, key: Key) -> None:
        self._suspended.pop(key, None)

    def follow_image(self) -> None:
        """Reports replicas again: a newer state may count on them."""
        if self._damaged or self._suspended or self._repaired:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            batch, repaired = self._batch(), self._reinstated()
            if not batch and not repaired:
                continue
            try:
                await self._controller.call(WITHDRAW, self._request(batch, repaired))
            except RpcFailure as error:
                log.info("report of withdrawn replicas waits for a controller", extra=fields(reason=error, partitions=len(batch)))
                await asyncio.sleep(RETRY_S)
                self._changed.set()
                continue
            log.warning("replicas withdrawn", extra=fields(partitions=len(batch), restored=len(repaired)))

    def _request(self, batch: list[Key], repaired: list[Key]) -> Withdraw:
        damaged = tuple(key for key in batch if key in self._damaged)
        suspended = tuple(key for key in batch if key not in self._damaged)
        return Withdraw(*self._caller, damaged, tuple(repaired), suspended)

    def _batch(self) -> list[Key]:
        image = self._image()
        batch = [key for key in self._damaged if self._is_counted(image.partition(*key))]
        batch += filter(self._is_shared, self._suspended)
        return batch[:BATCH]

    def _is_shared(self, key: Key) -> bool:
        """Whether this replica is in the ISR, and not alone."""
        state = self._image().partition(*key)
        return state is not None and len(state.isr) > 1 and self._is_counted(state)

    def _reinstated(self) -> list[Key]:
        """The reinstated replicas whose states still call them damaged. A state that does not say so yet may say it later."""
        image = self._image()
        states = ((key, image.partition(*key)) for key in self._repaired)
        return [key for key, state in states if state is not None and self._caller in state.withdrawn][:BATCH]

    def _is_counted(self, state: PartitionState | None) -> bool:
        if state is None or not hosts(state, self._caller.node_id) or self._caller in state.withdrawn:
            return False
        return any(member.node_id == self._caller.node_id for member in state.isr)
