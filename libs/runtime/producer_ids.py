"""Producer ids from blocks that the controller hands out, one block ahead.

Rule (docs/rules.md): while the metadata store is away, two prefetched blocks of producer ids remain. So the next block is
requested as soon as one is begun, not when it is used up. The block that is not begun outlives the process
(`unused_producer_ids.py`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from libs.rpc.contracts.controller import ProducerIdBlock
from libs.runtime.unused_producer_ids import UnusedProducerIds
from libs.telemetry.logs import fields

log = logging.getLogger("transactions")

BLOCKS_AHEAD = 2
RETRY_S = 1.0


class ProducerIds:
    """The gateway's supply of producer ids. `allocate` requests one block from the controller, and raises its errors."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]], spare: UnusedProducerIds | None = None) -> None:
        self._allocate = allocate
        self._spare = spare
        self._blocks: deque[range] = deque()
        self._begun = False
        """Whether the first block is begun."""
        if spare is not None and (unused := spare.find()) is not None:
            self._blocks.append(unused)
        self._refilling: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False

    async def next(self) -> int:
        """A producer id, never the same twice. It waits only when both blocks are used up, and then raises the controller's
        error."""
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

    @property
    def blocks(self) -> Sequence[range]:
        """Blocks of ids that are not given out yet, the one in use first."""
        return tuple(self._blocks)

    def prefetch(self) -> None:
        """Fills up the blocks in the background, and retries on failure. Call it once the controller can be reached."""
        if not self._closed and len(self._blocks) < BLOCKS_AHEAD and self._refilling is None and self._retry is None:
            self._refilling = asyncio.get_running_loop().create_task(self._fill())

    def close(self) -> None:
        self._closed = True
        if self._refilling is not None:
            self._refilling.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def _begin_first(self) -> bool:
        """Begins the first block that may be used. False: no block is left."""
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
            # The blocks at hand still have ids. A client that needs more hears the next error itself.
            log.info("no producer id block was allocated", extra=fields(error=str(error)))
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
        finally:
            self._refilling = None

    def _try_again(self) -> None:
        self._retry = None
        self.prefetch()

    async def _allocate_one(self) -> None:
        block = await self._allocate()
        if block.count <= 0:
            raise ValueError("the controller handed out an empty block")
        block_ids = range(block.first, block.first + block.count)
        if self._spare is not None:
            self._spare.keep(block_ids)
        self._blocks.append(block_ids)
