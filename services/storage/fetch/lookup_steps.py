"""The steps of lookups by timestamp that an event loop cannot do: reads and walks over headers in threads of the disk, and walks
over records in a child process.

One budget covers all requests of the node. Steps have turns, one at a time for each disk, and only whoever has the turn reads a
batch. One child process with a low priority does all walks over records. What waits for a turn holds no bytes. A client that goes
away cancels its lookup: it leaves the queue, and the child that walks for it is ended.

Order of effects of an opening: turn → the batch is read → the child walks → turn ends → the search goes on.
"""

import asyncio
import logging
import posixpath
from functools import partial

from libs.commitlog.files.page_cache import ColdRead
from libs.commitlog.segments.timestamp_search import BatchOpening, SearchResult, SearchStep
from libs.runtime.children import ChildDied, Children
from libs.telemetry.logs import fields
from libs.wire.record_batches.timestamp_walk import WalkResult, unopened, walk_batch
from services.storage.core.fetch.lookup_turns import LookupTurns
from services.storage.disks.disk_reads import DiskReads
from services.storage.partition.partition import Partition

log = logging.getLogger("log")

LOOKUP_PROCESSES = 1
LOOKUP_NICE = 5
"""A child that walks gets a quarter of a core that others want, too."""

_Turn = asyncio.Future[None]


class LookupSteps:
    """The steps under way. Errors of the disk, TooManyReads and TooManyLookups come from `do`."""

    def __init__(self, disk_reads: DiskReads, children: Children) -> None:
        self._disk_reads = disk_reads
        self._children = children
        self.turns: LookupTurns[_Turn] = LookupTurns()

    async def do(self, partition: Partition, step: SearchStep) -> SearchResult:
        directory = partition.log.directory
        if isinstance(step, ColdRead):
            return await self._disk_reads.submit(directory, step)
        disk = posixpath.dirname(directory)
        await self.take_turn(disk, partition)
        read: asyncio.Task[bytes | SearchResult] = asyncio.ensure_future(
            self._disk_reads.submit(directory, step.read if isinstance(step, BatchOpening) else step)
        )
        try:
            result = await asyncio.shield(read)
            if isinstance(step, BatchOpening):
                assert isinstance(result, bytes)
                return await self.walk(step, result)
            assert not isinstance(result, bytes)
            return result
        finally:
            if read.done():
                self.end_turn(disk)
            else:  # a thread still reads: whoever is next would only use up one more
                read.add_done_callback(partial(self._read_for_nobody, disk))
            del read  # an error's traceback has this frame: with its task they would wait for the cycle collector

    async def walk(self, opening: BatchOpening, batch: bytes) -> WalkResult:
        walk = opening.walk(batch)
        try:
            return await self._children.run(walk_batch, walk)
        except ChildDied as error:
            # It may have needed more memory than there is. A second attempt would bring down the next child.
            log.warning("batch not opened for a lookup", extra=fields(bytes=len(batch), reason=error))
            return unopened(walk)

    async def take_turn(self, disk: str, partition: Partition) -> None:
        turn: _Turn = asyncio.get_running_loop().create_future()
        if self.turns.join(disk, partition.key, turn):
            return
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self.turns.leave(disk, partition.key, turn)
            else:  # it was given in this very moment
                self.end_turn(disk)
            raise

    def _read_for_nobody(self, disk: str, read: "asyncio.Task[bytes | SearchResult]") -> None:
        if not read.cancelled():
            read.exception()  # whoever would have taken it is gone
        self.end_turn(disk)

    def end_turn(self, disk: str) -> None:
        following = self.turns.end(disk)
        while following is not None and following.cancelled():  # in this turn of the loop, so it has not left yet
            following = self.turns.end(disk)
        if following is not None:
            following.set_result(None)

    def close(self) -> None:
        self._children.close()
