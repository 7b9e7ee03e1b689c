"""The metadata store port: what Penstock needs of etcd, and nothing more.

Two adapters: `etcd_store` (real) and `memory_store` (tests and simulation). One contract suite runs against both.

Keys are `str`, values are `bytes`. Revisions are etcd's: one counter for the whole store, raised by every successful write.
"""

from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Final, Protocol

from libs.lean_dataclass import dataclass


class Outcome(Enum):
    """The outcome of a write."""

    OK = "ok"
    CONFLICT = "conflict"
    """A comparison failed; nothing was written."""
    UNKNOWN = "unknown"
    """No answer arrived. The write may have been applied, or may be applied later. Read again before deciding anything."""
    DENIED = "denied"
    """etcd's PERMISSION_DENIED: the user of this process may not do it. Nothing was written. It may be allowed later."""


DENIED: Final = "etcd denies it to the user of this process: run the set-up of etcd's users (docs/security.md#etcd)"
"""What the operator is told where an outcome is DENIED."""


class StoreUnavailable(Exception):
    """A read, lease or watch call could not be answered in time. Writes never raise this: they answer UNKNOWN, or DENIED."""


class WatchGap(Exception):
    """The watch lost its place (compacted or cancelled): list again, compare, and watch from the new revision."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int  # 0: none


@dataclass(frozen=True, slots=True)
class RangeResult:
    items: tuple[KeyValue, ...]
    revision: int
    """The store's revision when the range was read: watch from `revision + 1` to miss nothing."""


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class CreateRevisionIs:
    """`revision` 0 means that the key does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class ModRevisionIs:
    key: str
    revision: int


Compare = CreateRevisionIs | ModRevisionIs
Operation = Put | Delete

MAX_OPERATIONS = 128
"""etcd's default limit of operations in one transaction (comparisons count apart, under the same limit)."""


@dataclass(frozen=True, slots=True)
class TxnResult:
    outcome: Outcome
    revision: int
    """OK: the revision of the write. CONFLICT: the store's current revision. UNKNOWN, DENIED: 0."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A put when `value` is bytes, a delete (or an expired lease) when it is None."""

    key: str
    value: bytes | None
    mod_revision: int
    create_revision: int = 0
    lease: int = 0


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """All events of the revisions up to and including `revision`, in order. One transaction is never split."""

    events: tuple[WatchEvent, ...]
    revision: int
    resumed: bool = False
    """The stream was interrupted before this batch, which has no events. The store may have been restored from a backup
    meanwhile: who relies on its history lists it again."""


class MetadataStore(Protocol):
    async def get(self, key: str) -> KeyValue | None:
        """Linearizable read. Raises StoreUnavailable."""

    async def range(self, prefix: str) -> RangeResult:
        """All keys below `prefix`, in key order, from one revision. Raises StoreUnavailable."""

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """All operations if all comparisons hold, else none. At most MAX_OPERATIONS (ValueError)."""

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[WatchBatch]:
        """Events from `from_revision` on, reconnecting by itself. Raises WatchGap. Close with `aclose()`."""

    async def grant_lease(self, ttl_s: int) -> int:
        """A new lease's id. Raises StoreUnavailable."""

    async def keep_alive(self, lease: int) -> int:
        """Refreshes a lease. Returns the seconds that remain, 0 when the lease is gone (etcd3 does not raise then). Raises
        StoreUnavailable."""

    async def revoke_lease(self, lease: int) -> None:
        """Revokes a lease, so that its keys go now rather than at its expiry. It may fail silently."""

    async def close(self) -> None: ...
