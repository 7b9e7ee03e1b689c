"""Fenced writes: only the elected controller can make them, and an unknown outcome never counts as success."""

import asyncio
import logging

from libs.cluster.backoff import Backoff
from libs.cluster.election import Leadership
from libs.cluster.store import DENIED, MetadataStore, Outcome, Put, StoreUnavailable
from services.controller.term.writes import Write

log = logging.getLogger("controller")


class Deposed(Exception):
    """Another controller is elected, or may be. The last write may have been applied, if its answer was lost."""

    def __init__(self) -> None:
        super().__init__("no longer the elected controller")


class Conflict(Exception):
    """The store holds something else than the decision was made on. Decide again on an image at or after `revision`."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the image was behind revision {revision}")
        self.revision = revision


class OutcomeUnknown(Exception):
    """The store did not answer in time. The write may have been applied, or may be applied later."""


class WriteDenied(OutcomeUnknown):
    """etcd denies the write to this controller's user: nothing was written."""

    def __init__(self) -> None:
        super().__init__(DENIED)


class FencedWriter:
    """Makes the writes of one term. Each transaction compares the election key's create revision, so a deposed controller's
    fails."""

    def __init__(self, store: MetadataStore, leadership: Leadership, *, give_up_after_s: float) -> None:
        self._store = store
        self._leadership = leadership
        self._give_up_after_s = give_up_after_s

    async def commit(self, write: Write) -> int:
        """The revision at which `write` was applied. Raises Conflict, Deposed and OutcomeUnknown, of which WriteDenied is one.

        After an unknown outcome the same transaction is sent again. It compares what it changes, so only one of the two can be
        applied. A conflict then means that the first one was, or another controller's write.
        """
        guard = self._leadership.guard
        deadline = asyncio.get_running_loop().time() + self._give_up_after_s
        backoff = Backoff()
        unsure = False
        while True:
            result = await self._store.txn([guard, *write.compares], write.operations)
            if result.outcome is Outcome.OK:
                return result.revision
            try:
                if result.outcome is Outcome.CONFLICT:
                    if unsure and (applied := await self._applied_at(write, result.revision)) is not None:
                        return applied
                    await self.check_elected()
                    raise Conflict(result.revision)
            except StoreUnavailable as error:
                log.warning("metadata store unavailable", extra={"fields": {"reason": str(error)}})
            unsure = unsure or result.outcome is Outcome.UNKNOWN
            if self._leadership.lost.is_set():
                raise Deposed
            if asyncio.get_running_loop().time() >= deadline:
                if result.outcome is Outcome.DENIED and not unsure:
                    raise WriteDenied
                raise OutcomeUnknown(f"{write.proof.key}: no answer within {self._give_up_after_s:.0f} s")
            await asyncio.sleep(backoff.next_s())

    async def check_elected(self) -> None:
        """Raises Deposed unless the election key is the one of this term."""
        guard = self._leadership.guard
        stored = await self._store.get(guard.key)
        if stored is None or stored.create_revision != guard.revision:
            self._leadership.lose("another controller's election")
            raise Deposed

    async def _applied_at(self, write: Write, now: int) -> int | None:
        """The revision at or before which `write` was applied, as its proof shows; None if it was not. `now` is the store's
        revision."""
        if isinstance(write.proof, Put):
            stored = await self._store.get(write.proof.key)
            return stored.mod_revision if stored is not None and stored.value == write.proof.value else None
        if write.proof.prefix:
            return None if (await self._store.range(write.proof.key)).items else now
        return now if await self._store.get(write.proof.key) is None else None
