"""The election of one process among those of a role: of the controller that writes, of the quota manager that grants.

The winner holds the election key, which it created under its own lease. A controller's writes are guarded by that key's create
revision, so a deposed one's write fails however late it arrives. Everything else here only serves to notice changes soon.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from libs.cluster.backoff import Backoff
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.lease import HeldLease, grant
from libs.cluster.records import Elected
from libs.cluster.scoped_watch import scoped_watch
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

log = logging.getLogger("elections")

RESIGNED = "resigned"


class Leadership:
    """The term of an elected process. Put `guard` among the comparisons of every transaction, and stop when `lost` is set.

    A term is lost when its lease is gone or could not be refreshed in time, when a standby deleted the key, or when we resigned.
    """

    def __init__(self, store: MetadataStore, guard: CreateRevisionIs) -> None:
        self.guard = guard
        self.lost = asyncio.Event()
        self._store = store
        self._lease: HeldLease | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def valid(self) -> bool:
        """Whether work is worth starting. Safety comes from `guard` alone."""
        return not self.lost.is_set() and self._lease is not None and self._lease.held

    async def resign(self) -> None:
        """Ends the term, so that a successor may be elected at once. If this fails, the lease expires by itself."""
        self.lose(RESIGNED)
        await self._store.txn([self.guard], [Delete(self.guard.key)])
        if self._lease is not None:
            await self._store.revoke_lease(self._lease.lease_id)

    def hold(self, lease: HeldLease) -> None:
        self._lease = lease
        self._watch = asyncio.get_running_loop().create_task(self._watch_key(), name="election key watch")

    def lose(self, reason: str) -> None:
        if self.lost.is_set():
            return
        level = logging.INFO if reason == RESIGNED else logging.WARNING
        log.log(level, "leadership lost", extra={"fields": {"reason": reason, "create_revision": self.guard.revision}})
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
                async with scoped_watch(self._store, self.guard.key, revision) as batches:
                    async for batch in batches:
                        revision = batch.revision + 1
                        if batch.resumed:
                            break
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

    def __init__(self, store: MetadataStore, key: str, candidate: Elected, ttl_s: int) -> None:
        """`key`: the role's election key (`libs/cluster/keys.py`)."""
        self._store = store
        self._key = key
        self._candidate = candidate
        self._value = encode(candidate)
        self._ttl_s = ttl_s

    async def campaign(self) -> Leadership:
        """Waits until this process is elected, and returns its term. Cancel it to withdraw the candidature."""
        backoff = Backoff()
        while True:
            try:
                listed = await self._store.range(self._key)
                record = next((item for item in listed.items if item.key == self._key), None)
                if record is None:
                    leadership = await self._attempt()
                    if leadership is not None:
                        return leadership
                elif record.value == self._value:
                    # The key is ours, of a term that we no longer believe in. Until its lease expired it would hold up everybody.
                    await self._store.txn([CreateRevisionIs(record.key, record.create_revision)], [Delete(record.key)])
                    continue
                else:
                    await self._wait_for_vacancy(record, listed.revision + 1)
                    backoff.reset()
                    continue
            except (StoreUnavailable, WatchGap) as error:
                log.info("campaign waits", extra={"fields": {"reason": str(error)}})
            await asyncio.sleep(backoff.next_s())

    async def delete_former(self) -> None:
        """Deletes an election of this process's former incarnation, which is dead, so that its lease need not be waited for. Best
        effort."""
        with contextlib.suppress(StoreUnavailable, RecordError):
            stored = await self._store.get(self._key)
            incumbent = decode(type(self._candidate), stored.value) if stored is not None else None
            if stored is None or incumbent is None or incumbent.node_id != self._candidate.node_id:
                return
            if incumbent.incarnation < self._candidate.incarnation:
                await self._store.txn([CreateRevisionIs(stored.key, stored.create_revision)], [Delete(stored.key)])

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
        leadership = Leadership(self._store, CreateRevisionIs(self._key, created))
        on_lost[0] = leadership.lose
        leadership.hold(lease)
        log.info("elected", extra={"fields": {"create_revision": created}})
        return leadership

    async def _create(self, lease: HeldLease) -> int:
        """The election key's create revision, 0 when somebody else was faster or our lease ran out."""
        backoff = Backoff()
        while lease.held:
            result = await self._store.txn([CreateRevisionIs(self._key, 0)], [Put(self._key, self._value, lease.lease_id)])
            if result.outcome is Outcome.OK:
                return result.revision
            # After UNKNOWN the transaction may be applied at any time. Repeating it under the same lease is harmless: only one
            # can create the key.
            try:
                record = await self._store.get(self._key)
            except StoreUnavailable:
                record = None
            if record is not None:
                return record.create_revision if record.lease == lease.lease_id else 0
            await asyncio.sleep(backoff.next_s())
        return 0

    async def _wait_for_vacancy(self, incumbent: KeyValue, from_revision: int) -> None:
        """`from_revision` follows the read that found the incumbent: an older one may be compacted."""
        async with scoped_watch(self._store, incumbent.key, from_revision) as batches:
            async for batch in batches:
                if batch.resumed or any(event.key == incumbent.key and event.value is None for event in batch.events):
                    return
