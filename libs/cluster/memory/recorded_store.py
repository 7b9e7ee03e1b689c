"""The metadata store of a cluster in one process: in memory, and recorded before anybody sees a change.

Recorded is what outlives processes. A key under a lease belongs to a process, and all processes of this store end together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import Compare, Delete, Operation, Outcome, TxnResult
from libs.cluster.transactions import check_transaction

HISTORY_MAX = 4096
"""The changes that are kept for watches. A watch that is further behind lists the store again."""


class Change(NamedTuple):
    """A key and its new value. None: it is deleted."""

    key: str
    value: bytes | None


Record = Callable[[int, Sequence[Change]], Awaitable[None]]
"""Records the changes of a revision, durably. Raises OSError, and then they may be recorded or not."""


class RecordedWrites:
    """The writes of one keyspace: one at a time, and each is recorded before it is applied. All its stores share this."""

    def __init__(self, keyspace: Keyspace, record: Record | None = None) -> None:
        """Without `record` the keyspace ends with its process."""
        self.keyspace = keyspace
        self._record = record
        self._lock = asyncio.Lock()

    async def write(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        keyspace = self.keyspace
        async with self._lock:
            if not keyspace.holds(compares) or not keyspace.leases_live(operations):
                return TxnResult(Outcome.CONFLICT, keyspace.revision)
            changes = lasting_changes(keyspace, operations)
            if changes and self._record is not None:
                try:
                    await self._record(keyspace.revision + 1, changes)
                except OSError:
                    return TxnResult(Outcome.UNKNOWN, 0)
            return TxnResult(Outcome.OK, self._apply(operations))

    async def revoke(self, lease_id: int) -> None:
        async with self._lock:
            self.keyspace.revoke(lease_id)

    async def expire(self, lease_id: int) -> float:
        """Revokes a lease whose time is over. Returns the time at which it ends, if it was refreshed meanwhile, or else 0."""
        async with self._lock:
            lease = self.keyspace.leases.get(lease_id)
            if lease is not None and lease.expires_at > asyncio.get_running_loop().time():
                return lease.expires_at
            self.keyspace.revoke(lease_id)
            return 0.0

    def _apply(self, operations: Sequence[Operation]) -> int:
        revision = self.keyspace.write(operations)
        if revision > self.keyspace.compacted + 2 * HISTORY_MAX:
            self.keyspace.compact(revision - HISTORY_MAX)
        return revision


class RecordedStore(MemoryStore):
    """One service's view of the store."""

    def __init__(self, writes: RecordedWrites) -> None:
        super().__init__(writes.keyspace)
        self._writes = writes
        self._running: set[asyncio.Task[TxnResult] | asyncio.Task[None]] = set()

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        check_transaction(compares, operations)
        # A caller that gives up must not end a write between its record and its application.
        writing = asyncio.get_running_loop().create_task(self._writes.write(compares, operations))
        self._keep(writing)
        return await asyncio.shield(writing)

    async def revoke_lease(self, lease: int) -> None:
        await self._writes.revoke(lease)

    def _end_lease(self, lease_id: int) -> None:
        self._keep(asyncio.get_running_loop().create_task(self._expire_once_written(lease_id)))

    async def _expire_once_written(self, lease_id: int) -> None:
        """Between a write's comparisons and its application no lease ends."""
        if ends_at := await self._writes.expire(lease_id):
            asyncio.get_running_loop().call_at(ends_at, self._expire, lease_id)

    def _keep(self, task: "asyncio.Task[TxnResult] | asyncio.Task[None]") -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def lasting_changes(keyspace: Keyspace, operations: Sequence[Operation]) -> list[Change]:
    """What `operations` change of the keys without a lease."""
    changes = []
    for operation in operations:
        if not isinstance(operation, Delete) and not operation.lease:
            changes.append(Change(operation.key, operation.value))
            continue
        prefix = isinstance(operation, Delete) and operation.prefix
        former = keyspace.range(operation.key).items if prefix else (keyspace.get(operation.key),)
        changes += [Change(item.key, None) for item in former if item is not None and not item.lease]
    return changes
