"""The metadata store in memory, for tests and simulation: leases by `loop.time()`, and every fault that etcd can show.

One `Keyspace` may have many `MemoryStore`s, one for each simulated process. Each has its own faults, as each process has its own
network.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from enum import Enum

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.store import (
    Compare,
    KeyValue,
    Operation,
    Outcome,
    RangeResult,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
    WatchGap,
)
from libs.cluster.transactions import check_transaction


class LostAnswer(Enum):
    """The fate of a transaction whose answer never arrives."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"


class MemoryStore:
    """A metadata store in memory. A test may set these faults at any time:

    `unavailable`: reads and lease calls raise, transactions answer UNKNOWN and are not applied, and watches stand still. Leases
    that are not refreshed meanwhile expire: this process is cut off, the store is not down.

    `lost_answers`: one entry for each of the next transactions. It answers UNKNOWN, whether it was applied or not.

    `watch_delay_s`: how much later watches see what was written.
    """

    def __init__(self, keyspace: Keyspace | None = None) -> None:
        self.keyspace = keyspace if keyspace is not None else Keyspace()
        self.lost_answers: list[LostAnswer] = []
        self.watch_delay_s = 0.0
        self._unavailable = False
        self._cancellations = 0
        self._changed: dict[asyncio.Event, None] = {}  # a set would wake them in a different order at every run
        self._unlisten = self.keyspace.listen(self._wake)

    @property
    def unavailable(self) -> bool:
        return self._unavailable

    @unavailable.setter
    def unavailable(self, value: bool) -> None:
        self._unavailable = value
        self._wake()

    def peer(self) -> "MemoryStore":
        """The same store as another process sees it."""
        return MemoryStore(self.keyspace)

    def cancel_watches(self) -> None:
        """Makes every open watch raise WatchGap."""
        self._cancellations += 1
        self._wake()

    def compact(self, revision: int) -> None:
        self.keyspace.compact(revision)

    async def get(self, key: str) -> KeyValue | None:
        await self._turn()
        return self.keyspace.get(key)

    async def range(self, prefix: str) -> RangeResult:
        await self._turn()
        return self.keyspace.range(prefix)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        check_transaction(compares, operations)
        await asyncio.sleep(0)
        if self._unavailable:
            return TxnResult(Outcome.UNKNOWN, 0)
        lost = self.lost_answers.pop(0) if self.lost_answers else None
        if lost is LostAnswer.NOT_APPLIED:
            return TxnResult(Outcome.UNKNOWN, 0)
        if self.keyspace.holds(compares) and self.keyspace.leases_live(operations):
            result = TxnResult(Outcome.OK, self.keyspace.write(operations))
        else:
            result = TxnResult(Outcome.CONFLICT, self.keyspace.revision)
        await asyncio.sleep(0)
        return TxnResult(Outcome.UNKNOWN, 0) if lost is not None else result

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[WatchBatch]:
        changed = asyncio.Event()
        self._changed[changed] = None
        cancellations, restorations = self._cancellations, self.keyspace.restorations
        try:
            while True:
                changed.clear()
                if self._cancellations != cancellations:
                    raise WatchGap("cancelled")
                if not self.unavailable:
                    if self.keyspace.restorations != restorations:
                        restorations = self.keyspace.restorations
                        yield WatchBatch((), from_revision - 1, resumed=True)
                    if from_revision < self.keyspace.compacted:
                        raise WatchGap(f"revision {from_revision} is compacted")
                    for batch in self.keyspace.since(from_revision, prefix):
                        if self.watch_delay_s:
                            await asyncio.sleep(self.watch_delay_s)
                        if self.unavailable or self._cancellations != cancellations:
                            break
                        from_revision = batch.revision + 1
                        yield batch
                    else:
                        # The watch has seen everything up to here, changes outside of its prefix included.
                        if not changed.is_set():
                            from_revision = max(from_revision, self.keyspace.revision + 1)
                await changed.wait()
        finally:
            del self._changed[changed]

    async def grant_lease(self, ttl_s: int) -> int:
        await self._turn()
        loop = asyncio.get_running_loop()
        lease = self.keyspace.grant(ttl_s, loop.time())
        loop.call_at(lease.expires_at, self._expire, lease.lease_id)
        return lease.lease_id

    async def keep_alive(self, lease: int) -> int:
        await self._turn()
        held = self.keyspace.leases.get(lease)
        if held is None:
            return 0
        held.expires_at = asyncio.get_running_loop().time() + held.ttl_s
        return held.ttl_s

    async def revoke_lease(self, lease: int) -> None:
        await asyncio.sleep(0)
        if not self._unavailable:
            self.keyspace.revoke(lease)

    async def close(self) -> None:
        """This process's view ends; the keyspace stays."""
        self._unlisten()

    async def _turn(self) -> None:
        await asyncio.sleep(0)
        if self._unavailable:
            raise StoreUnavailable("unavailable")

    def _expire(self, lease_id: int) -> None:
        lease = self.keyspace.leases.get(lease_id)
        if lease is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < lease.expires_at:
            loop.call_at(lease.expires_at, self._expire, lease_id)
        else:
            self._end_lease(lease_id)

    def _end_lease(self, lease_id: int) -> None:
        self.keyspace.revoke(lease_id)

    def _wake(self) -> None:
        for changed in tuple(self._changed):
            changed.set()
