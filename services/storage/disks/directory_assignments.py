"""Directory assignments (KIP-858): this node tells the elected controller where its replicas lie or will lie, until the states
agree."""

import asyncio
import logging
from collections.abc import Callable, Collection

from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import ASSIGN_DIRS, AssignDirs
from libs.rpc.messages.errors import RpcFailure
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from services.storage.core.replication.leadership import assigned_directory, hosts
from services.storage.partition.partition import Key

log = logging.getLogger("disks")

BATCH = 1000
RETRY_S = 1.0


class DirectoryAssignments:
    """The reports of directories. `report` is called for every open log; what the image says already is not reported."""

    def __init__(
        self,
        node_id: int,
        incarnation: int,
        image: Callable[[], ClusterImage],
        controller: Controllers,
        opened_ids: Callable[[], Collection[str]],
    ) -> None:
        """`opened_ids`: all directories that this process has opened, also those that failed since. Their content is known."""
        self._node_id = node_id
        self._incarnation = incarnation
        self._image = image
        self._controller = controller
        self._opened_ids = opened_ids
        self._unreported: dict[Key, str] = {}
        self._only_requested: set[Key] = set()
        self._in_flight: dict[Key, str] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="placement reports")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def report(self, key: Key, directory_id: str) -> None:
        """Reports that the log lies there."""
        self._only_requested.discard(key)
        self._unreported[key] = directory_id
        self._changed.set()

    def request(self, key: Key, directory_id: str) -> None:
        """Reports that the log will lie there, once the state says so."""
        self._only_requested.add(key)
        self._unreported[key] = directory_id
        self._changed.set()

    def unconfirmed(self, key: Key) -> set[str]:
        """The directories that the state may name soon."""
        return {reports[key] for reports in (self._unreported, self._in_flight) if key in reports}

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while batch := self._batch():
                self._in_flight = dict(batch)
                try:
                    await self._report(batch)
                except RpcFailure as error:
                    log.info(
                        "report of log directories waits for a controller", extra=fields(reason=error, partitions=len(batch))
                    )
                    await asyncio.sleep(RETRY_S)
                    continue
                finally:
                    self._in_flight = {}
                for key, directory_id in batch:
                    if self._unreported.get(key) == directory_id:
                        del self._unreported[key]

    def _batch(self) -> list[tuple[Key, str]]:
        """The reports that the image does not show yet. Others, and those without a replica here, are dropped."""
        image = self._image()
        self._only_requested &= self._unreported.keys()
        for key, directory_id in list(self._unreported.items()):
            state = image.partition(*key)
            if state is None or not hosts(state, self._node_id) or assigned_directory(state, self._node_id) == directory_id:
                del self._unreported[key]
        return list(self._unreported.items())[:BATCH]

    async def _report(self, batch: list[tuple[Key, str]]) -> None:
        assignments = tuple((topic, index, directory) for (topic, index), directory in batch)
        kept = tuple([key for key, _ in batch if key not in self._only_requested and self._names_opened_directory(key)])
        await self._controller.call(ASSIGN_DIRS, AssignDirs(self._node_id, self._incarnation, assignments, kept))

    def _names_opened_directory(self, key: Key) -> bool:
        state = self._image().partition(*key)
        return state is not None and assigned_directory(state, self._node_id) in self._opened_ids()
