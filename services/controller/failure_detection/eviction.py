"""What follows from a death: the elected controller deletes the dead member's key, and a standby that of a dead controller's
election. Everything else follows from that, as if a lease had run out.

Both deletions are guarded by what was read, so that nobody is buried who registered again, or was elected again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from libs.cluster import keys
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, STORAGE
from libs.cluster.store import CreateRevisionIs, Delete, MetadataStore, ModRevisionIs, Outcome, StoreUnavailable
from libs.telemetry.logs import fields
from services.controller.core.detection import Process
from services.controller.fencing import Conflict, Unsettled
from services.controller.term import Term
from services.controller.vigil import Vigil
from services.controller.writes import Write

log = logging.getLogger(__name__)

RETRY_S = 0.5
STAND_BACK_S = 5.0
"""For so long a controller that was cut off leaves the office to others."""


class Obituaries:
    """Of one controller, in and out of office."""

    def __init__(self, vigil: Vigil) -> None:
        self._vigil = vigil
        self._changed = asyncio.Event()
        vigil.subscribe(self._changed.set)

    def doubted(self) -> frozenset[int]:
        """Storage nodes that may be dead, or are about to be known to be."""
        return self._vigil.doubted()

    def debug(self) -> object:
        """For the admin port."""
        return self._vigil.debug()

    async def write(self, term: Term) -> None:
        """Lasts for a term. Raises Deposed."""
        while True:
            self._changed.clear()
            for process, write in obituaries(term.image, self._vigil.dead()):
                try:
                    await term.commit(write)
                    log.warning("member removed", extra=fields(role=process.role, node=process.node_id))
                except Conflict as conflict:
                    await term.catch_up(conflict.revision)
                    self._changed.set()
                except Unsettled as error:
                    log.warning("a dead member is still registered", extra=fields(reason=error, node=process.node_id))
                    await asyncio.sleep(RETRY_S)
                    self._changed.set()
            await self._changed.wait()

    async def stand_down(self) -> None:
        """Returns when this controller finds itself cut off: somebody else should be in office."""
        before, changed = self._vigil.cut_offs, asyncio.Event()
        unsubscribe = self._vigil.subscribe(changed.set)
        try:
            while self._vigil.cut_offs == before:
                changed.clear()
                await changed.wait()
        finally:
            unsubscribe()

    async def stand_back(self) -> None:
        """Returns when this controller may campaign: at once, unless it is cut off."""
        changed = asyncio.Event()
        unsubscribe = self._vigil.subscribe(changed.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STAND_BACK_S):
                    while self._vigil.cut_off:
                        changed.clear()
                        await changed.wait()
        finally:
            unsubscribe()


def obituaries(image: ClusterImage, dead: list[Process]) -> Iterator[tuple[Process, Write]]:
    """Storage nodes first: elections wait for them. Then coordinators, whose shards wait for an owner."""
    for process in sorted(dead, key=lambda process: (process.role != STORAGE, process.role != GROUP_COORDINATOR)):
        member = image.members(process.role).get(process.node_id)
        if member is not None and member.incarnation == process.incarnation:
            key = keys.member(process.role, process.node_id)
            deletion = Delete(key)
            yield process, Write((ModRevisionIs(key, image.mod_revision(key)),), (deletion,), deletion)


class Succession:
    """Vacates the office of a controller whose process ended. For standbys; the one in office watches nobody above it."""

    def __init__(self, store: MetadataStore, follower: ImageFollower, vigil: Vigil) -> None:
        self._store, self._follower, self._vigil = store, follower, vigil
        self._changed = asyncio.Event()
        vigil.subscribe(self._changed.set)

    async def run(self) -> None:
        unsubscribe = self._follower.subscribe(self._image_changed)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while (guard := self._vacant()) is not None:
                    if await self._vacate(guard):
                        break
                    await asyncio.sleep(RETRY_S)
        finally:
            unsubscribe()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.controller is not new.controller:
            self._changed.set()

    def _vacant(self) -> CreateRevisionIs | None:
        image = self._follower.image
        incumbent = image.controller
        if incumbent is None or Process(CONTROLLER, *_life(image)) not in self._vigil.dead():
            return None
        return CreateRevisionIs(keys.CONTROLLER, image.create_revision(keys.CONTROLLER))

    async def _vacate(self, guard: CreateRevisionIs) -> bool:
        """False: ask again."""
        log.warning("the controller in office is dead", extra=fields(node=_life(self._follower.image)[0]))
        with contextlib.suppress(StoreUnavailable):
            return (await self._store.txn([guard], [Delete(guard.key)])).outcome is not Outcome.UNKNOWN
        return False


def _life(image: ClusterImage) -> tuple[int, int]:
    assert image.controller is not None
    return image.controller.node_id, image.controller.incarnation
