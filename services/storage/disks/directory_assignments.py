"""Tells the elected controller in which log directories this node has its replicas, or will have, until the states say so."""

import asyncio
import logging
from collections.abc import Callable, Collection

from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import ASSIGN_DIRS, AssignDirs
from libs.rpc.errors import RpcFailure
from libs.runtime.controllers import Controllers
from libs.telemetry.logs import fields
from services.storage.core.leadership import assigned_directory, hosts
from services.storage.hosted import Key

log = logging.getLogger(__name__)

BATCH = 1000
RETRY_S = 1.0


class Placements:
    """`settled` for every partition once its log is open. What the image already says is not reported."""

    def __init__(
        self,
        node_id: int,
        incarnation: int,
        image: Callable[[], ClusterImage],
        controller: Controllers,
        looked_at: Callable[[], Collection[str]],
    ) -> None:
        """`looked_at`: the directories that this process has opened, also those that failed since: it knows what was in them."""
        self._node_id = node_id
        self._incarnation = incarnation
        self._image = image
        self._controller = controller
        self._looked_at = looked_at
        self._unreported: dict[Key, str] = {}
        self._only_asked: set[Key] = set()
        self._under_way: dict[Key, str] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="placement reports")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def settled(self, key: Key, directory_id: str) -> None:
        """Its log is there."""
        self._only_asked.discard(key)
        self._unreported[key] = directory_id
        self._changed.set()

    def ask(self, key: Key, directory_id: str) -> None:
        """Its log will be there, once the state says so."""
        self._only_asked.add(key)
        self._unreported[key] = directory_id
        self._changed.set()

    def on_the_way(self, key: Key) -> set[str]:
        """What the state may say soon."""
        return {said[key] for said in (self._unreported, self._under_way) if key in said}

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while batch := self._batch():
                self._under_way = dict(batch)
                try:
                    await self._report(batch)
                except RpcFailure as error:
                    log.info("placement report waits", extra=fields(reason=error, partitions=len(batch)))
                    await asyncio.sleep(RETRY_S)
                    continue
                finally:
                    self._under_way = {}
                for key, directory_id in batch:
                    if self._unreported.get(key) == directory_id:
                        del self._unreported[key]

    def _batch(self) -> list[tuple[Key, str]]:
        """What the image does not say yet. What it says, or no longer asks for, is forgotten here."""
        image = self._image()
        self._only_asked &= self._unreported.keys()
        for key, directory_id in list(self._unreported.items()):
            state = image.partition(*key)
            if state is None or not hosts(state, self._node_id) or assigned_directory(state, self._node_id) == directory_id:
                del self._unreported[key]
        return list(self._unreported.items())[:BATCH]

    async def _report(self, batch: list[tuple[Key, str]]) -> None:
        placements = tuple((topic, index, directory) for (topic, index), directory in batch)
        kept = tuple([key for key, _ in batch if key not in self._only_asked and self._names_one_looked_at(key)])
        await self._controller.call(ASSIGN_DIRS, AssignDirs(self._node_id, self._incarnation, placements, kept))

    def _names_one_looked_at(self, key: Key) -> bool:
        state = self._image().partition(*key)
        return state is not None and assigned_directory(state, self._node_id) in self._looked_at()
