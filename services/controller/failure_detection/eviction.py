"""Eviction of dead members. The active controller deletes a dead member's key; a standby deletes a dead controller's election
key. The consequences are the same as those of an expired lease.

Both deletions are guarded by what was read, so that no member is evicted that registered or was elected again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from libs.cluster import keys
from libs.cluster.health import LongRunning
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR
from libs.cluster.store import CreateRevisionIs, Delete, MetadataStore, ModRevisionIs, Outcome, StoreUnavailable
from libs.telemetry.logs import fields
from services.controller.core.failure_detection.liveness import Process
from services.controller.core.model.cuts import Cuts
from services.controller.failure_detection.failure_detector import FailureDetector
from services.controller.term.fenced_writer import Conflict, OutcomeUnknown
from services.controller.term.term import Term
from services.controller.term.writes import Write

log = logging.getLogger("controller")

RETRY_S = 0.5
CUT_OFF_WAIT_S = 5.0
"""For so long a controller that was cut off does not campaign."""


class MemberEviction:
    """Evicts dead members while its controller is active, and tells it when it is cut off."""

    def __init__(
        self, failure_detector: FailureDetector, on_dead: Callable[[int, int], None] = lambda node_id, incarnation: None
    ) -> None:
        """`on_dead` hears of each storage node and its incarnation before it is evicted."""
        self._failure_detector = failure_detector
        self._on_dead = on_dead
        self._changed = asyncio.Event()
        failure_detector.subscribe(self._changed.set)

    def suspected(self) -> frozenset[int]:
        """Storage nodes that may be dead."""
        return self._failure_detector.suspected()

    def cuts(self) -> Cuts:
        """Storage nodes that some processes cannot reach."""
        return self._failure_detector.cuts()

    def long_running(self) -> Sequence[LongRunning]:
        """What takes too long, as coordinators say."""
        return self._failure_detector.long_running()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """See `FailureDetector.subscribe`."""
        self._failure_detector.subscribe(listener)

    def debug(self) -> object:
        """For the admin port."""
        return self._failure_detector.debug()

    async def write(self, term: Term) -> None:
        """Deletes the keys of dead members for a term. Raises Deposed."""
        while True:
            self._changed.clear()
            for process, write in evictions(term.image, self._failure_detector.dead()):
                if process.role == STORAGE:
                    self._on_dead(process.node_id, process.incarnation)
                try:
                    await term.commit(write)
                    log.warning("member removed", extra=fields(role=process.role, node=process.node_id))
                except Conflict as conflict:
                    await term.catch_up(conflict.revision)
                    self._changed.set()
                except OutcomeUnknown as error:
                    log.warning("a dead member is still registered", extra=fields(reason=error, node=process.node_id))
                    await asyncio.sleep(RETRY_S)
                    self._changed.set()
            await self._changed.wait()

    async def until_cut_off(self) -> None:
        """Waits until this controller is cut off, so that another one should be active."""
        before, changed = self._failure_detector.cut_offs, asyncio.Event()
        unsubscribe = self._failure_detector.subscribe(changed.set)
        try:
            while self._failure_detector.cut_offs == before:
                changed.clear()
                await changed.wait()
        finally:
            unsubscribe()

    async def until_not_cut_off(self) -> None:
        """Waits until this controller may campaign: at once, unless it is cut off."""
        changed = asyncio.Event()
        unsubscribe = self._failure_detector.subscribe(changed.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CUT_OFF_WAIT_S):
                    while self._failure_detector.cut_off:
                        changed.clear()
                        await changed.wait()
        finally:
            unsubscribe()


_ORDER = {STORAGE: 0, GROUP_COORDINATOR: 1, TRANSACTION_COORDINATOR: 1}


def evictions(image: ClusterImage, dead: list[Process]) -> Iterator[tuple[Process, Write]]:
    """The writes that evict dead members. Storage nodes come first, since elections wait for them; then coordinators, whose
    shards wait for an owner."""
    for process in sorted(dead, key=lambda process: _ORDER.get(process.role, len(_ORDER))):
        member = image.members(process.role).get(process.node_id)
        if member is not None and member.incarnation == process.incarnation:
            key = keys.member(process.role, process.node_id)
            deletion = Delete(key)
            yield process, Write((ModRevisionIs(key, image.mod_revision(key)),), (deletion,), deletion)


class ControllerEviction:
    """Deletes the election of an active controller whose process ended. It runs on standbys."""

    def __init__(self, store: MetadataStore, follower: ImageFollower, failure_detector: FailureDetector) -> None:
        self._store, self._follower, self._failure_detector = store, follower, failure_detector
        self._changed = asyncio.Event()
        failure_detector.subscribe(self._changed.set)

    async def run(self) -> None:
        unsubscribe = self._follower.subscribe(self._image_changed)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while (guard := self._dead_incumbent()) is not None:
                    if await self._delete_election(guard):
                        break
                    await asyncio.sleep(RETRY_S)
        finally:
            unsubscribe()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.controller is not new.controller:
            self._changed.set()

    def _dead_incumbent(self) -> CreateRevisionIs | None:
        image = self._follower.image
        incumbent = image.controller
        if incumbent is None or Process(CONTROLLER, *_incumbent(image)) not in self._failure_detector.dead():
            return None
        return CreateRevisionIs(keys.CONTROLLER, image.create_revision(keys.CONTROLLER))

    async def _delete_election(self, guard: CreateRevisionIs) -> bool:
        """Deletes the election key; False if it has to be tried again."""
        log.warning("the active controller is dead", extra=fields(node=_incumbent(self._follower.image)[0]))
        with contextlib.suppress(StoreUnavailable):
            return (await self._store.txn([guard], [Delete(guard.key)])).outcome in (Outcome.OK, Outcome.CONFLICT)
        return False


def _incumbent(image: ClusterImage) -> tuple[int, int]:
    assert image.controller is not None
    return image.controller.node_id, image.controller.incarnation
