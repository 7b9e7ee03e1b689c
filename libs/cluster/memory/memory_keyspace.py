"""etcd's data model in memory: revisions, a history to watch, leases. No I/O and no clock; `memory_store` is its shell."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from libs.cluster.store import Compare, CreateRevisionIs, Delete, KeyValue, Operation, RangeResult, WatchBatch, WatchEvent
from libs.lean_dataclass import dataclass


@dataclass(slots=True)
class Lease:
    lease_id: int
    ttl_s: int
    expires_at: float
    keys: set[str] = field(default_factory=set)


class Keyspace:
    """Shared by every `MemoryStore` of one cluster. Each successful write adds one revision and one batch of history."""

    def __init__(self) -> None:
        self.revision = 1  # as a new etcd
        self.compacted = 0
        self.restorations = 0
        self.leases: dict[int, Lease] = {}
        self._items: dict[str, KeyValue] = {}
        self._history: list[WatchBatch] = []
        self._last_lease = 0
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def holding(cls, items: Iterable[KeyValue], revision: int) -> "Keyspace":
        """A store that begins at `revision` with these keys, none of which has a lease."""
        keyspace = cls()
        keyspace.revision = keyspace.compacted = revision
        keyspace._items = {item.key: item for item in items}
        return keyspace

    def get(self, key: str) -> KeyValue | None:
        return self._items.get(key)

    def range(self, prefix: str) -> RangeResult:
        items = sorted((item for key, item in self._items.items() if key.startswith(prefix)), key=lambda item: item.key.encode())
        return RangeResult(tuple(items), self.revision)

    def holds(self, compares: Sequence[Compare]) -> bool:
        return all(self._compare(compare) for compare in compares)

    def leases_live(self, operations: Sequence[Operation]) -> bool:
        return all(isinstance(each, Delete) or not each.lease or each.lease in self.leases for each in operations)

    def write(self, operations: Sequence[Operation]) -> int:
        """Applies all operations as one revision. As in etcd, a transaction that changes nothing leaves the revision as it is."""
        revision = self.revision + 1
        events: list[WatchEvent] = []
        for operation in operations:
            if isinstance(operation, Delete):
                deleted_keys = (
                    [key for key in self._items if key.startswith(operation.key)] if operation.prefix else [operation.key]
                )
                events.extend(self._delete(key, revision) for key in sorted(deleted_keys) if key in self._items)
                continue
            before = self._items.get(operation.key)
            created = before.create_revision if before is not None else revision
            self._attach(operation.key, before.lease if before is not None else 0, operation.lease)
            self._items[operation.key] = KeyValue(operation.key, operation.value, created, revision, operation.lease)
            events.append(WatchEvent(operation.key, operation.value, revision, created, operation.lease))
        if events:
            self.revision = revision
            self._history.append(WatchBatch(tuple(events), revision))
            for listener in tuple(self._listeners):
                listener()
        return self.revision

    def since(self, revision: int, prefix: str) -> list[WatchBatch]:
        """Batches from `revision` on that touch `prefix`, cut down to what is below it."""
        batches = []
        for batch in self._history[self._first_at_or_after(revision) :]:
            events = tuple(event for event in batch.events if event.key.startswith(prefix))
            if events:
                batches.append(replace(batch, events=events))
        return batches

    def compact(self, revision: int) -> None:
        """Refuses watches from before `revision` from now on."""
        self.compacted = min(revision, self.revision)
        del self._history[: self._first_at_or_after(self.compacted)]
        for listener in tuple(self._listeners):
            listener()

    def backup(self) -> "Keyspace":
        """What a restored store begins with: keys and leases as they are now."""
        saved = Keyspace()
        saved.revision, saved.compacted, saved._last_lease = self.revision, self.revision, self._last_lease
        saved._items = dict(self._items)
        saved.leases = {lease_id: replace(lease, keys=set(lease.keys)) for lease_id, lease in self.leases.items()}
        return saved

    def restore(self, saved: "Keyspace") -> None:
        """Goes back to a backup, as etcd does between a stop and a start. No lease id is given out twice: etcd's are random."""
        copied = saved.backup()
        self.revision, self.compacted = copied.revision, copied.compacted
        self.restorations += 1
        self._items, self.leases = copied._items, copied.leases
        self._history.clear()
        for listener in tuple(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after each write and compaction. Returns a function that ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def grant(self, ttl_s: int, now: float) -> Lease:
        self._last_lease += 1
        lease = self.leases[self._last_lease] = Lease(self._last_lease, ttl_s, now + ttl_s)
        return lease

    def revoke(self, lease_id: int) -> None:
        """Revokes a lease. Its keys are deleted in one revision, as in etcd."""
        lease = self.leases.pop(lease_id, None)
        if lease is not None and lease.keys:
            self.write([Delete(key) for key in sorted(lease.keys)])

    def _compare(self, compare: Compare) -> bool:
        item = self._items.get(compare.key)
        if item is None:
            return compare.revision == 0
        return compare.revision == (item.create_revision if isinstance(compare, CreateRevisionIs) else item.mod_revision)

    def _delete(self, key: str, revision: int) -> WatchEvent:
        deleted = self._items.pop(key)
        self._attach(key, deleted.lease, 0)
        return WatchEvent(key, None, revision)

    def _attach(self, key: str, before: int, after: int) -> None:
        if before in self.leases:
            self.leases[before].keys.discard(key)
        if after in self.leases:
            self.leases[after].keys.add(key)

    def _first_at_or_after(self, revision: int) -> int:
        for index in range(len(self._history) - 1, -1, -1):
            if self._history[index].revision < revision:
                return index + 1
        return 0
