"""A whole metadata store: read, or written into an empty one."""

from collections.abc import Iterator, Mapping
from itertools import islice

from libs.cluster import keys
from libs.cluster.saved_metadata import backup_of
from libs.cluster.store import DENIED, CreateRevisionIs, Delete, MetadataStore, Operation, Outcome, Put, RangeResult

BATCH = 100
BATCH_BYTES_MAX = 500_000


class RecoveryRefused(Exception):
    """The store is not in the state that a command needs, or did not confirm what it wrote."""


async def read_store(store: MetadataStore, now_ms: int, *, with_credentials: bool = False) -> bytes:
    """The backup of a store as a file. Raises RecoveryRefused, RecordError, StoreUnavailable."""
    scram = (await store.range(keys.SCRAM)).items if with_credentials else ()
    listed = await store.range(keys.PREFIX)
    if not any(item.key == keys.CLUSTER_ID for item in listed.items):
        raise RecoveryRefused("etcd holds no cluster: there is nothing to back up")
    return backup_of(RangeResult((*listed.items, *scram), listed.revision), now_ms)


async def fill_store(store: MetadataStore, values: Mapping[str, bytes]) -> None:
    """Writes the content of a store that holds no cluster. Raises RecoveryRefused, StoreUnavailable.

    The cluster id comes last: no process begins before it is there. What an earlier attempt left behind is removed.
    """
    if await store.get(keys.CLUSTER_ID) is not None:
        raise RecoveryRefused("etcd holds a cluster: stop it, and move its data away first")
    rest = {key: value for key, value in values.items() if key != keys.CLUSTER_ID}
    absent = CreateRevisionIs(keys.CLUSTER_ID, 0)
    await _write(store, absent, [Delete(keys.PREFIX, prefix=True), Delete(keys.SCRAM, prefix=True)])
    for batch in _batches(rest):
        await _write(store, absent, batch)
    await _write(store, absent, [Put(keys.CLUSTER_ID, values[keys.CLUSTER_ID])])


async def _write(store: MetadataStore, guard: CreateRevisionIs, operations: list[Operation]) -> None:
    result = await store.txn([guard], operations)
    if result.outcome is Outcome.DENIED:
        raise RecoveryRefused(DENIED)
    if result.outcome is not Outcome.OK:
        raise RecoveryRefused(f"etcd did not confirm a write ({result.outcome.value}): run the command again")


def _batches(values: Mapping[str, bytes]) -> Iterator[list[Operation]]:
    left = iter(values.items())
    while chunk := list(islice(left, BATCH)):
        batch: list[Operation] = []
        size = 0
        for key, value in chunk:
            if batch and size + len(key) + len(value) > BATCH_BYTES_MAX:
                yield batch
                batch, size = [], 0
            batch.append(Put(key, value))
            size += len(key) + len(value)
        yield batch
