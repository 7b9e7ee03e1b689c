"""Producer ids from blocks that the controller hands out, one block ahead.

Rule (DESIGN section 5): producer ids last for two prefetched blocks while the metadata store is away, so the next block is
asked for as soon as one is begun, not when it is used up. The one that is not begun outlives the process (`spare_ids.py`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from libs.rpc.contracts.controller import ProducerIdBlock
from libs.telemetry.logs import fields
from services.gateway.spare_ids import SpareIds

log = logging.getLogger(__name__)

BLOCKS_AHEAD = 2
RETRY_S = 1.0


class ProducerIds:
    """`allocate` asks the controller for one block, and raises what it raises."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]], spare: SpareIds | None = None) -> None:
        self._allocate = allocate
        self._spare = spare
        self._blocks: deque[range] = deque()
        self._begun = False
        """The first block."""
        if spare is not None and (left := spare.find()) is not None:
            self._blocks.append(left)
        self._refill: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    async def next(self) -> int:
        """Never the same twice. Waits only when both blocks are used up, and then raises what the controller's answer was."""
        while not self._begin_first():
            await self._allocate_one()
        block = self._blocks[0]
        producer_id = block[0]
        rest = block[1:]
        if rest:
            self._blocks[0] = rest
        else:
            self._drop_first()
        self.prefetch()
        return producer_id

    def prefetch(self) -> None:
        """Fill up in the background. Call once the controller can be reached; failures are tried again."""
        if not self._closed and len(self._blocks) < BLOCKS_AHEAD and self._refill is None and self._retry is None:
            self._refill = asyncio.get_running_loop().create_task(self._fill())

    def close(self) -> None:
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def _begin_first(self) -> bool:
        """False: no block is left."""
        while self._blocks and not self._begun:
            if self._spare is None or self._spare.begin(self._blocks[0]):
                self._begun = True
            else:
                self._drop_first()
        return bool(self._blocks)

    def _drop_first(self) -> None:
        self._blocks.popleft()
        self._begun = False

    async def _fill(self) -> None:
        try:
            while len(self._blocks) < BLOCKS_AHEAD:
                await self._allocate_one()
        except Exception as error:
            # Whatever it is, ids are still there; the next attempt, or a client's own wait, will tell.
            log.info("no producer id block", extra=fields(error=str(error)))
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
        finally:
            self._refill = None

    def _try_again(self) -> None:
        self._retry = None
        self.prefetch()

    async def _allocate_one(self) -> None:
        block = await self._allocate()
        if block.count <= 0:
            raise ValueError("the controller handed out an empty block")
        made = range(block.first, block.first + block.count)
        if self._spare is not None:
            self._spare.keep(made)
        self._blocks.append(made)
