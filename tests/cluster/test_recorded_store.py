"""The store of a cluster in one process: what it records, and when others see it."""

import asyncio
from collections.abc import Sequence

import pytest

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.recorded_store import HISTORY_MAX, Change, RecordedStore, RecordedWrites
from libs.cluster.store import CreateRevisionIs, Delete, Outcome, Put
from tests.support.polling import until


class Recorder:
    """What was recorded. While `gate` is closed, a record hangs; with `fails`, it fails."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, list[Change]]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def record(self, revision: int, changes: Sequence[Change]) -> None:
        await self.gate.wait()
        if self.fails:
            raise OSError("no room")
        self.recorded.append((revision, list(changes)))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def writes(recorder: Recorder) -> RecordedWrites:
    return RecordedWrites(Keyspace(), recorder.record)


async def test_a_change_is_seen_by_nobody_until_it_is_recorded(writes: RecordedWrites, recorder: Recorder) -> None:
    store, other = RecordedStore(writes), RecordedStore(writes)
    recorder.gate.clear()
    writing = asyncio.create_task(store.txn([], [Put("a", b"1")]))
    await asyncio.sleep(0.01)
    assert await other.get("a") is None
    recorder.gate.set()
    assert (await writing).outcome is Outcome.OK
    item = await other.get("a")
    assert item is not None
    assert recorder.recorded == [(item.mod_revision, [Change("a", b"1")])]


async def test_what_cannot_be_recorded_is_not_applied(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    recorder.fails = True
    assert (await store.txn([], [Put("a", b"1")])).outcome is Outcome.UNKNOWN
    assert await store.get("a") is None


async def test_a_caller_that_gives_up_does_not_part_a_record_from_its_change(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    recorder.gate.clear()
    writing = asyncio.create_task(store.txn([], [Put("a", b"1")]))
    await asyncio.sleep(0.01)
    writing.cancel()
    recorder.gate.set()

    async def is_applied() -> bool:
        return await store.get("a") is not None

    await until(is_applied)
    assert len(recorder.recorded) == 1


async def test_a_comparison_holds_for_the_change_that_is_applied(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    recorder.gate.clear()
    both = [asyncio.create_task(store.txn([CreateRevisionIs("a", 0)], [Put("a", value)])) for value in (b"1", b"2")]
    await asyncio.sleep(0.01)
    recorder.gate.set()
    assert [(await each).outcome for each in both] == [Outcome.OK, Outcome.CONFLICT]
    assert [changes for _, changes in recorder.recorded] == [[Change("a", b"1")]]


async def test_what_lives_under_a_lease_is_not_recorded(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    lease = await store.grant_lease(10)
    await store.txn([], [Put("member", b"1", lease)])
    await store.txn([], [Put("a", b"1"), Put("other", b"2", lease)])
    await store.txn([], [Delete("member")])
    await store.revoke_lease(lease)
    assert await store.get("other") is None
    assert [changes for _, changes in recorder.recorded] == [[Change("a", b"1")]]


async def test_a_deletion_by_prefix_is_recorded_key_by_key(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    lease = await store.grant_lease(10)
    await store.txn([], [Put("t/1", b"1"), Put("t/2", b"2"), Put("t/3", b"3", lease)])
    await store.txn([], [Delete("t/", prefix=True)])
    assert recorder.recorded[-1][1] == [Change("t/1", None), Change("t/2", None)]


async def test_a_key_that_comes_under_a_lease_is_recorded_as_gone(writes: RecordedWrites, recorder: Recorder) -> None:
    store = RecordedStore(writes)
    lease = await store.grant_lease(10)
    await store.txn([], [Put("a", b"1")])
    await store.txn([], [Put("a", b"2", lease)])
    assert recorder.recorded[-1][1] == [Change("a", None)]


async def test_a_lease_that_is_not_refreshed_ends(writes: RecordedWrites) -> None:
    store = RecordedStore(writes)
    lease = await store.grant_lease(1)
    await store.txn([], [Put("member", b"1", lease)])

    async def is_gone() -> bool:
        return await store.get("member") is None

    await until(is_gone)
    assert await store.keep_alive(lease) == 0


async def test_old_history_is_dropped(writes: RecordedWrites) -> None:
    store = RecordedStore(writes)
    for number in range(3 * HISTORY_MAX):
        writes.keyspace.write([Put("a", b"%d" % number)])
    await store.txn([], [Put("a", b"last")])
    assert len(writes.keyspace.since(0, "")) <= HISTORY_MAX + 1
