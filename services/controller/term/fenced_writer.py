"""Writes that only the elected controller can make, and that are never taken for done when nobody knows."""

import asyncio
import logging

from libs.cluster.backoff import Backoff
from libs.cluster.election import Leadership
from libs.cluster.store import MetadataStore, Outcome, Put, StoreUnavailable
from services.controller.writes import Write

log = logging.getLogger(__name__)


class Deposed(Exception):
    """Somebody else is elected, or may be. What it was about to write may have been applied, if an answer was lost before."""

    def __init__(self) -> None:
        super().__init__("no longer the elected controller")


class Conflict(Exception):
    """The store holds something else than was decided upon. Decide again with an image at or past `revision`."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the image was behind revision {revision}")
        self.revision = revision


class Unsettled(Exception):
    """The store did not say in time whether the write was applied; it may still be."""


class FencedWriter:
    """Makes one term's writes. Each transaction compares the election key's create revision, so a deposed one fails."""

    def __init__(self, store: MetadataStore, leadership: Leadership, *, give_up_after_s: float) -> None:
        self._store = store
        self._leadership = leadership
        self._give_up_after_s = give_up_after_s

    async def commit(self, write: Write) -> int:
        """The revision at which `write` was applied. Raises Conflict, Deposed and Unsettled.

        An unknown outcome is settled by sending the same transaction again: it compares what it changes, so only one of the
        two can be applied, and a conflict then means that the other one was, or somebody else's.
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
                raise Unsettled(f"{write.proof.key}: no answer within {self._give_up_after_s:.0f} s")
            await asyncio.sleep(backoff.next_s())

    async def check_elected(self) -> None:
        """Raises Deposed unless the election key is still the one of this term."""
        guard = self._leadership.guard
        found = await self._store.get(guard.key)
        if found is None or found.create_revision != guard.revision:
            self._leadership.lose("another controller's election")
            raise Deposed

    async def _applied_at(self, write: Write, now: int) -> int | None:
        """The revision by which `write` was applied, as its proof shows; None when it was not. `now` is the store's."""
        if isinstance(write.proof, Put):
            found = await self._store.get(write.proof.key)
            return found.mod_revision if found is not None and found.value == write.proof.value else None
        if write.proof.prefix:
            return None if (await self._store.range(write.proof.key)).items else now
        return now if await self._store.get(write.proof.key) is None else None
