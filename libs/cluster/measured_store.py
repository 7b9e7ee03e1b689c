"""A metadata store that measures another one: how long its calls take, how many fail, and how many leases were lost.

A slow store is found by nobody else. Reads and writes of records go on without it, while ISR changes, elections and registrations
wait. A lost lease is a process that others took for dead, or may have.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from libs.cluster.store import (
    Compare,
    KeyValue,
    MetadataStore,
    Operation,
    Outcome,
    RangeResult,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)
from libs.telemetry.definitions import CounterDefinition, HistogramDefinition, MetricSet
from libs.telemetry.durations import Durations

A = TypeVar("A")


SLOW_S: Final = 1.0
"""A call that takes longer delays what clients notice: elections and ISR changes take two calls at least."""
SLOW_CALLS: Final = 3
"""So many slow calls, one after the other, are trouble. One alone may be a pause of anybody's."""
RECENT_S: Final = 15.0
"""How long a lost lease, or the last slow call, counts as recent."""


CALLS: Final = ("get", "range", "txn", "grant_lease", "keep_alive", "revoke_lease")


class StoreTrouble:
    """What is wrong with the store now, in words for the health of the cluster."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._last_s: deque[float] = deque(maxlen=SLOW_CALLS)
        """How long the last calls took."""
        self._ended_s = 0.0
        self._lost_s: float | None = None

    def call_ended(self, took_s: float) -> None:
        self._last_s.append(took_s)
        self._ended_s = self._now_s()

    def lease_lost(self) -> None:
        self._lost_s = self._now_s()

    def words(self) -> str:
        """Empty: nothing is wrong."""
        since = self._now_s() - RECENT_S
        clauses = []
        if len(self._last_s) == SLOW_CALLS and min(self._last_s) >= SLOW_S and self._ended_s >= since:
            clauses.append(f"the metadata store (etcd) takes {min(self._last_s):.1f} s and longer for a call")
        if self._lost_s is not None and self._lost_s >= since:
            clauses.append("a lease of the active controller ended")
        return ", ".join(clauses)


class MeasuredStore(MetricSet):
    """Both a store, which passes everything on, and the collector of what it measured. `now_s`: monotonic seconds."""

    call_times: dict[str, Durations] = HistogramDefinition(
        name="penstock_metadata_store_call_seconds",
        help="Time of this process's calls to the metadata store (etcd), those without an answer included.",
        labels=("call",),
        healthy="below 0.1 s",
        otherwise="etcd is slow: look at its disk (`etcd_disk_wal_fsync_duration_seconds`), its CPU and the network to it. "
        "Elections, ISR changes and registrations wait for it.",
    ).kept()
    failures: dict[str, int] = CounterDefinition(
        name="penstock_metadata_store_failures",
        help="Calls to the metadata store (etcd) that had no answer in time, were denied, or left open whether a write happened.",
        labels=("call",),
        from_zero=tuple((call,) for call in CALLS),
        healthy="0",
        otherwise="etcd is away, or was: look at its members, and at the network to them. Where it denies calls, the log of the "
        "process has `etcd refuses a call`.",
    ).kept()
    lost_leases: int = CounterDefinition(
        name="penstock_metadata_store_lost_leases",
        help="Leases of this process that ended without its doing. Its registration or election ended with each.",
        healthy="0",
        otherwise="The process, its host or etcd stood still for longer than the lease: `PENSTOCK_MEMBER_TTL_S`, or "
        "`PENSTOCK_SILENCE_S` where it is longer.",
    ).kept()

    def __init__(self, store: MetadataStore, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._store, self._now_s = store, now_s
        self.trouble = StoreTrouble(now_s)

    async def get(self, key: str) -> KeyValue | None:
        return await self._measured("get", self._store.get(key))

    async def range(self, prefix: str) -> RangeResult:
        return await self._measured("range", self._store.range(prefix))

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        result = await self._measured("txn", self._store.txn(compares, operations))
        if result.outcome in (Outcome.UNKNOWN, Outcome.DENIED):
            self._failed("txn")
        return result

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[WatchBatch]:
        return self._store.watch(prefix, from_revision)

    async def grant_lease(self, ttl_s: int) -> int:
        return await self._measured("grant_lease", self._store.grant_lease(ttl_s))

    async def keep_alive(self, lease: int) -> int:
        remains_s = await self._measured("keep_alive", self._store.keep_alive(lease))
        if remains_s <= 0:
            self.lost_leases += 1
            self.trouble.lease_lost()
        return remains_s

    async def revoke_lease(self, lease: int) -> None:
        await self._measured("revoke_lease", self._store.revoke_lease(lease))

    async def close(self) -> None:
        await self._store.close()

    async def _measured(self, name: str, call: Awaitable[A]) -> A:
        began = self._now_s()
        try:
            return await call
        except StoreUnavailable:
            self._failed(name)
            raise
        finally:
            took_s = self._now_s() - began
            self.call_times.setdefault(name, Durations()).observe(took_s)
            self.trouble.call_ended(took_s)

    def _failed(self, name: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1
