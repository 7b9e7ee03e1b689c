"""Which controller writes.

The winner holds the election key, which it created under its own lease. Whatever it writes is guarded by that key's create
revision, so a deposed controller's write fails however late it arrives. Everything else here is about noticing soon.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.codec import encode
from libs.cluster.lease import HeldLease, grant
from libs.cluster.records import ElectedController
from libs.cluster.store import (
    CreateRevisionIs,
    Delete,
    KeyValue,
    MetadataStore,
    Outcome,
    Put,
    StoreUnavailable,
    WatchGap,
)
from libs.cluster.watching import watching

log = logging.getLogger(__name__)


class Leadership:
    """One term. Put `guard` among the comparisons of every transaction; stop when `lost` is set.

    It is lost when the lease is gone or could not be refreshed in time, when the key was deleted (a standby may do that), or
    when we resigned.
    """

    def __init__(self, store: MetadataStore, guard: CreateRevisionIs) -> None:
        self.guard = guard
        self.lost = asyncio.Event()
        self._store = store
        self._lease: HeldLease | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def valid(self) -> bool:
        """Tells whether work is worth starting. Safety comes from `guard` alone."""
        return not self.lost.is_set() and self._lease is not None and self._lease.held

    async def resign(self) -> None:
        """A successor may be elected at once. Best effort: otherwise the lease expires."""
        self.lose("resigned")
        await self._store.txn([self.guard], [Delete(self.guard.key)])
        if self._lease is not None:
            await self._store.revoke_lease(self._lease.lease_id)

    def hold(self, lease: HeldLease) -> None:
        self._lease = lease
        self._watch = asyncio.get_running_loop().create_task(self._watch_key(), name="election key watch")

    def lose(self, reason: str) -> None:
        if self.lost.is_set():
            return
        log.warning("leadership lost", extra={"fields": {"reason": reason, "create_revision": self.guard.revision}})
        self.lost.set()
        if self._lease is not None:
            self._lease.stop()
        if self._watch is not None:
            self._watch.cancel()

    async def _watch_key(self) -> None:
        backoff = Backoff()
        revision = self.guard.revision + 1
        while True:
            try:
                async with watching(self._store, self.guard.key, revision) as batches:
                    async for batch in batches:
                        revision = batch.revision + 1
                        if any(event.key == self.guard.key and event.value is None for event in batch.events):
                            return self.lose("the election key was deleted")
            except (WatchGap, StoreUnavailable):
                await asyncio.sleep(backoff.next_s())
            try:
                listed = await self._store.range(self.guard.key)
            except StoreUnavailable:
                continue
            revision = listed.revision + 1
            if not any(item.key == self.guard.key and item.create_revision == self.guard.revision for item in listed.items):
                return self.lose("the election key was deleted")


class Election:
    """A candidate that may be elected many times, one term after the other."""

    def __init__(self, store: MetadataStore, candidate: ElectedController, ttl_s: int) -> None:
        self._store = store
        self._value = encode(candidate)
        self._ttl_s = ttl_s

    async def campaign(self) -> Leadership:
        """Returns when elected, however long that takes. Cancel it to stand down."""
        backoff = Backoff()
        while True:
            try:
                found = await self._store.get(keys.CONTROLLER)
                if found is None:
                    leadership = await self._attempt()
                    if leadership is not None:
                        return leadership
                elif found.value == self._value:
                    # Ours, of a term that we no longer believe in: its lease would only hold everybody up.
                    await self._store.txn([CreateRevisionIs(found.key, found.create_revision)], [Delete(found.key)])
                    continue
                else:
                    await self._wait_for_vacancy(found)
                    backoff.reset()
                    continue
            except (StoreUnavailable, WatchGap) as error:
                log.info("campaign waits", extra={"fields": {"reason": str(error)}})
            await asyncio.sleep(backoff.next_s())

    async def _attempt(self) -> Leadership | None:
        lost: list[str] = []
        on_lost: list[Callable[[str], None]] = [lost.append]
        lease = await grant(self._store, self._ttl_s, lambda reason: on_lost[0](reason))
        created = 0
        try:
            created = await self._create(lease)
        finally:
            if not created:
                lease.stop()
        if not created or lost:
            await self._store.revoke_lease(lease.lease_id)
            return None
        leadership = Leadership(self._store, CreateRevisionIs(keys.CONTROLLER, created))
        on_lost[0] = leadership.lose
        leadership.hold(lease)
        log.info("elected", extra={"fields": {"create_revision": created}})
        return leadership

    async def _create(self, lease: HeldLease) -> int:
        """The election key's create revision, 0 when somebody else was faster or our lease ran out."""
        backoff = Backoff()
        while lease.held:
            result = await self._store.txn(
                [CreateRevisionIs(keys.CONTROLLER, 0)], [Put(keys.CONTROLLER, self._value, lease.lease_id)]
            )
            if result.outcome is Outcome.OK:
                return result.revision
            # After UNKNOWN it may land at any time. Repeating it under the same lease is harmless: only one can create the key.
            try:
                found = await self._store.get(keys.CONTROLLER)
            except StoreUnavailable:
                found = None
            if found is not None:
                return found.create_revision if found.lease == lease.lease_id else 0
            await asyncio.sleep(backoff.next_s())
        return 0

    async def _wait_for_vacancy(self, incumbent: KeyValue) -> None:
        async with watching(self._store, incumbent.key, incumbent.mod_revision + 1) as batches:
            async for batch in batches:
                if any(event.key == incumbent.key and event.value is None for event in batch.events):
                    return
