"""Volume stamps: a log directory that went back is recognised, since its volume was restored from an older snapshot.

Each directory holds a number, its stamp, and the metadata store a copy. Both rise at each start, and every few seconds in which
records were committed; the directory's first, on its disk. So a stamp below the store's copy is of an older state than the one
in which records were acknowledged. Such a directory keeps its stamp until no partition counts on its former content any more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.image import ClusterImage
from libs.cluster.store import MetadataStore, Outcome, Put, StoreUnavailable
from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.logs import fields
from services.storage.core.replication.leadership import counts_on
from services.storage.disks.disks import Disk

log = logging.getLogger("disks")

LINES_S = 60.0
"""The time between two lines about a directory that does not take its stamp."""

WAY_OUT = (
    "bring the newer volume back, or start all nodes with replicas; "
    "only if one is lost for good: kafka-leader-election --election-type unclean"
)


class VolumeStamps:
    """The stamps of all directories. Call `compare`, register, then `start`."""

    def __init__(
        self, node_id: int, incarnation: int, store: MetadataStore, image: Callable[[], ClusterImage], every_s: float
    ) -> None:
        self._node_id, self._incarnation = node_id, incarnation
        self._store = store
        self._image = image
        self._every_s = every_s
        self._stamps: dict[Disk, int] = {}
        """The higher of a directory's own stamp and the store's copy."""
        self._went_back: set[Disk] = set()
        self._lines = LimitedLines(log, LINES_S, asyncio.get_running_loop())
        self._tasks: list[asyncio.Task[None]] = []

    async def compare(self, disks: Sequence[Disk]) -> tuple[str, ...]:
        """The ids of the directories that went back. It tries for as long as the store takes to answer."""
        for disk in disks:
            own = await disk.files.submit(disk.directory.read_stamp)
            recorded = await self._recorded(disk.directory_id)
            self._stamps[disk] = max(own, recorded)
            if own < recorded:
                self._went_back.add(disk)
                log.error(
                    "log directory is an older copy of itself: its replicas lead only after a survey",
                    extra=fields(path=disk.path, stamp=own, expected=recorded, way_out=WAY_OUT),
                )
        return tuple([disk.directory_id for disk in disks if disk in self._went_back])

    def start(self) -> None:
        """Begins to raise stamps: this node is registered. Each disk has a task: one that hangs must not hold up another."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(disk), name=f"volume stamp {disk.path}") for disk in self._stamps]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, disk: Disk) -> None:
        while not disk.sync.failed:
            if disk in self._went_back and not counts_on(self._image(), self._node_id, self._incarnation, disk.directory_id):
                self._went_back.discard(disk)
                log.info("no partition counts on what the log directory lost", extra=fields(path=disk.path))
            if disk.unstamped and disk not in self._went_back:
                await self._raise(disk)
            await asyncio.sleep(self._every_s)

    async def _raise(self, disk: Disk) -> None:
        disk.unstamped = False  # what is committed from now on asks for the next stamp
        stamp = self._stamps[disk] + 1
        try:
            await disk.files.submit(partial(disk.directory.write_stamp, stamp))
        except OSError as error:
            key = disk.path, error.errno
            self._lines.write(key, logging.WARNING, "volume stamp not written", path=disk.path, reason=str(error))
            disk.unstamped = True
            return
        self._stamps[disk] = stamp
        result = await self._store.txn([], [Put(keys.volume_stamp(disk.directory_id), b"%d" % stamp)])
        disk.unstamped |= result.outcome is not Outcome.OK

    async def _recorded(self, directory_id: str) -> int:
        backoff = Backoff()
        while True:
            try:
                stored = await self._store.get(keys.volume_stamp(directory_id))
            except StoreUnavailable as error:
                log.info("volume stamps wait for the metadata store", extra=fields(reason=error))
                await asyncio.sleep(backoff.next_s())
            else:
                return int(stored.value) if stored is not None else 0
