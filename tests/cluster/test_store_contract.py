"""The contract of metadata stores: one suite for etcd, for the one in memory and for that of simulated clusters."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from random import Random
from typing import Any, Protocol, cast

import pytest

from libs.cluster.etcd.etcd_connection import EtcdConnection
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.etcd.etcd_stubs import CompactionRequest, CompactionResponse
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.store import (
    MAX_OPERATIONS,
    CreateRevisionIs,
    Delete,
    MetadataStore,
    ModRevisionIs,
    Operation,
    Outcome,
    Put,
    StoreUnavailable,
    WatchBatch,
    WatchEvent,
    WatchGap,
)
from libs.cluster.transactions import MAX_BYTES
from tests.simulation.cluster.store import Links, SimulatedStore

_tests = itertools.count()


class Kit(Protocol):
    """A store with faults that a test controls. `store` has the faults, `sound` never does."""

    store: MetadataStore
    sound: MetadataStore
    prefix: str

    async def lose_answer(self, *, applied: bool) -> None: ...

    async def cut_off(self) -> None: ...

    async def heal(self) -> None: ...

    async def compact(self, revision: int) -> None: ...


class MemoryKit:
    def __init__(self) -> None:
        self.sound = MemoryStore()
        self.store: MemoryStore = self.sound.peer()
        self.prefix = "/test/"

    async def lose_answer(self, *, applied: bool) -> None:
        self.store.lost_answers.append(LostAnswer.APPLIED if applied else LostAnswer.NOT_APPLIED)

    async def cut_off(self) -> None:
        self.store.unavailable = True

    async def heal(self) -> None:
        self.store.unavailable = False

    async def compact(self, revision: int) -> None:
        self.sound.compact(revision)

    async def close(self) -> None:
        await self.store.close()


class SimulatedKit(MemoryKit):
    """A store as a process of a simulated cluster reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SimulatedStore(self.sound.keyspace, Links(Random(1)), request_s_max=0.2)


class EtcdKit:
    def __init__(self, server: Any) -> None:
        self.sound = EtcdStore([server.endpoint], timeout_s=10)
        self.prefix = f"/test/{next(_tests)}/"
        self._proxy = server.proxy()
        self._direct = EtcdConnection([server.endpoint], None, 5)

    async def start(self) -> None:
        await self._proxy.start()
        self.store = EtcdStore([self._proxy.endpoint], timeout_s=1)
        await self.sound.get("ready")

    async def lose_answer(self, *, applied: bool) -> None:
        await self.store.get("connected")
        self._proxy.swallow_replies = applied
        self._proxy.swallow_requests = not applied

    async def cut_off(self) -> None:
        self._proxy.swallow_requests = True

    async def heal(self) -> None:
        await self._proxy.reset_connections()

    async def compact(self, revision: int) -> None:
        channel = self._direct.endpoint().channel
        serializers = (CompactionRequest.SerializeToString, CompactionResponse.FromString)
        await channel.unary_unary("/etcdserverpb.KV/Compact", *serializers)(CompactionRequest(revision=revision), timeout=5)

    async def close(self) -> None:
        await self._direct.close()
        await self.store.close()
        await self.sound.close()
        await self._proxy.close()


@pytest.fixture(params=["memory", "simulated", "etcd"])
async def kit(request: pytest.FixtureRequest) -> AsyncIterator[Kit]:
    made: Any
    if request.param == "memory":
        made = MemoryKit()
    elif request.param == "simulated":
        made = SimulatedKit()
    else:
        made = EtcdKit(request.getfixturevalue("shared_etcd"))
        await made.start()
    yield made
    await made.close()


async def put(kit: Kit, name: str, value: bytes = b"v", lease: int = 0) -> int:
    result = await kit.sound.txn([], [Put(kit.prefix + name, value, lease)])
    assert result.outcome is Outcome.OK
    return result.revision


async def value_of(kit: Kit, name: str) -> bytes | None:
    record = await kit.sound.get(kit.prefix + name)
    return None if record is None else record.value


class Watched:
    """A watch that is read event by event."""

    def __init__(self, store: MetadataStore, prefix: str, from_revision: int) -> None:
        self._batches = cast("AsyncGenerator[WatchBatch, None]", store.watch(prefix, from_revision))

    async def batch(self) -> WatchBatch:
        async with asyncio.timeout(20):
            while not (batch := await anext(self._batches)).events:
                pass
        return batch

    async def events(self, count: int) -> list[WatchEvent]:
        received: list[WatchEvent] = []
        while len(received) < count:
            received.extend((await self.batch()).events)
        return received

    async def close(self) -> None:
        await self._batches.aclose()


async def test_a_missing_key_reads_as_none_and_an_empty_range_has_a_revision(kit: Kit) -> None:
    assert await kit.store.get(kit.prefix + "nothing") is None
    listed = await kit.store.range(kit.prefix)
    assert listed.items == ()
    assert listed.revision >= 1


async def test_a_put_is_read_back_with_its_revisions(kit: Kit) -> None:
    first = await put(kit, "a", b"1")
    second = await put(kit, "a", b"2")
    record = await kit.store.get(kit.prefix + "a")
    assert record is not None
    assert (record.value, record.create_revision, record.mod_revision, record.lease) == (b"2", first, second, 0)


async def test_a_key_that_is_deleted_and_written_again_is_a_new_key(kit: Kit) -> None:
    await put(kit, "a")
    await kit.store.txn([], [Delete(kit.prefix + "a")])
    again = await put(kit, "a")
    record = await kit.store.get(kit.prefix + "a")
    assert record is not None
    assert record.create_revision == again


async def test_a_range_holds_what_is_below_the_prefix_in_key_order(kit: Kit) -> None:
    for name in ("p/b", "p/a", "p", "q/a", "p/ä", "p0"):
        await put(kit, name)
    listed = await kit.store.range(kit.prefix + "p/")
    assert [item.key.removeprefix(kit.prefix) for item in listed.items] == ["p/a", "p/b", "p/ä"]


async def test_create_if_absent_succeeds_once(kit: Kit) -> None:
    guard, write = [CreateRevisionIs(kit.prefix + "a", 0)], [Put(kit.prefix + "a", b"mine")]
    first = await kit.store.txn(guard, write)
    second = await kit.store.txn(guard, write)
    assert (first.outcome, second.outcome) == (Outcome.OK, Outcome.CONFLICT)
    assert second.revision >= first.revision


async def test_a_guard_on_the_mod_revision_refuses_a_write_over_a_newer_one(kit: Kit) -> None:
    old = await put(kit, "a", b"1")
    new = await put(kit, "a", b"2")
    refused = await kit.store.txn([ModRevisionIs(kit.prefix + "a", old)], [Put(kit.prefix + "a", b"3")])
    accepted = await kit.store.txn([ModRevisionIs(kit.prefix + "a", new)], [Put(kit.prefix + "a", b"4")])
    assert (refused.outcome, accepted.outcome) == (Outcome.CONFLICT, Outcome.OK)
    assert await value_of(kit, "a") == b"4"


async def test_a_conflict_writes_nothing_at_all(kit: Kit) -> None:
    await put(kit, "a")
    compares = [CreateRevisionIs(kit.prefix + "b", 0), CreateRevisionIs(kit.prefix + "a", 0)]
    result = await kit.store.txn(compares, [Put(kit.prefix + "b", b""), Delete(kit.prefix + "a")])
    assert result.outcome is Outcome.CONFLICT
    assert await value_of(kit, "a") == b"v"
    assert await value_of(kit, "b") is None


async def test_all_operations_of_a_transaction_share_one_revision(kit: Kit) -> None:
    await put(kit, "old")
    writes: list[Operation] = [Put(kit.prefix + "a", b"1"), Put(kit.prefix + "b", b"2"), Delete(kit.prefix + "old")]
    result = await kit.store.txn([], writes)
    listed = await kit.store.range(kit.prefix)
    assert [item.mod_revision for item in listed.items] == [result.revision] * 2


async def test_a_prefix_delete_spares_adjacent_keys(kit: Kit) -> None:
    for name in ("p/a", "p/b", "p", "p0"):
        await put(kit, name)
    await kit.store.txn([], [Delete(kit.prefix + "p/", prefix=True)])
    listed = await kit.store.range(kit.prefix)
    assert [item.key.removeprefix(kit.prefix) for item in listed.items] == ["p", "p0"]


async def test_deleting_nothing_succeeds_and_raises_no_revision(kit: Kit) -> None:
    before = await put(kit, "a")
    result = await kit.store.txn([], [Delete(kit.prefix + "nothing"), Delete(kit.prefix + "none/", prefix=True)])
    assert (result.outcome, result.revision) == (Outcome.OK, before)


async def test_a_transaction_of_the_largest_allowed_count_succeeds_and_a_larger_one_is_refused(kit: Kit) -> None:
    writes = [Put(f"{kit.prefix}{index}", b"") for index in range(MAX_OPERATIONS + 1)]
    guards = [CreateRevisionIs(write.key, 0) for write in writes]
    assert (await kit.store.txn(guards[:-1], writes[:-1])).outcome is Outcome.OK
    with pytest.raises(ValueError, match="at most 128"):
        await kit.store.txn([], writes)
    with pytest.raises(ValueError, match="at most 128"):
        await kit.store.txn(guards, [])


async def test_a_transaction_that_etcd_would_refuse_is_refused_before_it_is_sent(kit: Kit) -> None:
    key = kit.prefix + "a"
    write = Put(key, b"")
    refused: list[list[Operation]] = [[write, write], [write, Delete(key)], [Delete(kit.prefix, prefix=True), write]]
    for operations in refused:
        with pytest.raises(ValueError, match="in one transaction"):
            await kit.store.txn([], operations)
    with pytest.raises(ValueError, match="bytes"):
        await kit.store.txn([], [Put(key, bytes(MAX_BYTES + 1))])
    assert (await kit.store.txn([], [Put(key, bytes(MAX_BYTES - 100))])).outcome is Outcome.OK


async def test_a_watch_tells_the_past_from_its_revision_on(kit: Kit) -> None:
    await put(kit, "a", b"0")
    first = await put(kit, "a", b"1")
    second = await put(kit, "b", b"2")
    watched = Watched(kit.store, kit.prefix, first)
    events = await watched.events(2)
    await watched.close()
    assert [(event.key.removeprefix(kit.prefix), event.value, event.mod_revision) for event in events] == [
        ("a", b"1", first),
        ("b", b"2", second),
    ]
    assert events[0].create_revision == first - 1


async def test_a_watch_tells_puts_and_deletes_as_they_happen_and_nothing_beside_its_prefix(kit: Kit) -> None:
    start = await put(kit, "other")
    watched = Watched(kit.store, kit.prefix + "p/", start + 1)
    waiting = asyncio.ensure_future(watched.batch())
    await put(kit, "q/a")
    await put(kit, "p/a", b"1")
    assert (await waiting).events[0].value == b"1"
    await kit.sound.txn([], [Delete(kit.prefix + "p/", prefix=True)])
    [deletion] = await watched.events(1)
    await watched.close()
    assert (deletion.key, deletion.value) == (kit.prefix + "p/a", None)


async def test_a_watch_never_splits_a_transaction(kit: Kit) -> None:
    start = await put(kit, "start")
    for round_ in range(20):
        await kit.sound.txn([], [Put(f"{kit.prefix}{index}", bytes([round_]) * 2000) for index in range(100)])
    watched = Watched(kit.store, kit.prefix, start + 1)
    seen = 0
    while seen < 2000:
        batch = await watched.batch()
        assert len(batch.events) % 100 == 0
        assert batch.events[-1].mod_revision == batch.revision
        seen += len(batch.events)
    await watched.close()


async def test_two_watches_do_not_disturb_each_other(kit: Kit) -> None:
    start = await put(kit, "start")
    first, second = Watched(kit.store, kit.prefix, start + 1), Watched(kit.store, kit.prefix, start + 1)
    await put(kit, "a")
    assert (await first.batch()).events == (await second.batch()).events
    await first.close()
    await put(kit, "b")
    assert (await second.batch()).events[0].key == kit.prefix + "b"
    await second.close()


async def test_a_watch_from_a_compacted_revision_raises_a_gap(kit: Kit) -> None:
    first = await put(kit, "a", b"1")
    last = first
    for value in (b"2", b"3", b"4"):
        last = await put(kit, "a", value)
    await kit.compact(last)
    watched = Watched(kit.store, kit.prefix, first)
    with pytest.raises(WatchGap):
        await watched.batch()
    after = Watched(kit.store, kit.prefix, last + 1)
    await put(kit, "a", b"5")
    assert (await after.batch()).events[0].value == b"5"
    await after.close()


async def test_a_watch_that_is_up_to_date_survives_a_compaction(kit: Kit) -> None:
    start = await put(kit, "start")
    watched = Watched(kit.store, kit.prefix, start + 1)
    last = await put(kit, "a", b"1")
    await watched.batch()
    await kit.compact(last)
    await put(kit, "a", b"2")
    assert (await watched.batch()).events[0].value == b"2"
    await watched.close()


async def test_an_expired_lease_deletes_its_keys_as_one_revision(kit: Kit) -> None:
    lease = await kit.store.grant_lease(1)
    await put(kit, "a", lease=lease)
    start = await put(kit, "b", lease=lease)
    record = await kit.store.get(kit.prefix + "a")
    assert record is not None
    assert record.lease == lease
    watched = Watched(kit.store, kit.prefix, start + 1)
    batch = await watched.batch()
    await watched.close()
    assert [(event.key.removeprefix(kit.prefix), event.value) for event in batch.events] == [("a", None), ("b", None)]
    assert await kit.store.keep_alive(lease) == 0


async def test_a_lease_that_is_kept_alive_outlives_its_time(kit: Kit) -> None:
    loop = asyncio.get_running_loop()
    lease = await kit.store.grant_lease(3)
    await put(kit, "a", lease=lease)
    end = loop.time() + 4.5
    while loop.time() < end:
        assert await kit.store.keep_alive(lease) >= 1
        await asyncio.sleep(0.2)
    assert await value_of(kit, "a") == b"v"
    await kit.store.revoke_lease(lease)


async def test_a_revoked_lease_takes_its_keys_at_once_and_is_gone(kit: Kit) -> None:
    lease = await kit.store.grant_lease(60)
    await put(kit, "a", lease=lease)
    await kit.store.revoke_lease(lease)
    assert await value_of(kit, "a") is None
    assert await kit.store.keep_alive(lease) == 0
    await kit.store.revoke_lease(lease)


async def test_a_key_belongs_to_the_lease_of_its_last_put(kit: Kit) -> None:
    old, new = await kit.store.grant_lease(60), await kit.store.grant_lease(60)
    await put(kit, "moved", lease=old)
    await put(kit, "freed", lease=old)
    await put(kit, "moved", b"new", lease=new)
    await put(kit, "freed", b"free")
    await kit.store.revoke_lease(old)
    assert await value_of(kit, "moved") == b"new"
    assert await value_of(kit, "freed") == b"free"
    await kit.store.revoke_lease(new)
    assert await value_of(kit, "moved") is None


async def test_a_put_under_a_lease_that_is_gone_is_a_conflict_and_writes_nothing(kit: Kit) -> None:
    lease = await kit.store.grant_lease(60)
    await kit.store.revoke_lease(lease)
    result = await kit.store.txn([], [Put(kit.prefix + "a", b""), Put(kit.prefix + "b", b"", lease)])
    assert result.outcome is Outcome.CONFLICT
    assert result.revision >= 1
    assert (await kit.sound.range(kit.prefix)).items == ()


async def test_a_lost_answer_leaves_the_outcome_unknown_though_it_was_written(kit: Kit) -> None:
    await kit.lose_answer(applied=True)
    result = await kit.store.txn([], [Put(kit.prefix + "a", b"1")])
    assert (result.outcome, result.revision) == (Outcome.UNKNOWN, 0)
    assert await value_of(kit, "a") == b"1"
    await kit.heal()
    record = await kit.store.get(kit.prefix + "a")
    assert record is not None


async def test_a_lost_request_leaves_the_outcome_unknown_though_nothing_was_written(kit: Kit) -> None:
    await kit.lose_answer(applied=False)
    result = await kit.store.txn([], [Put(kit.prefix + "a", b"1")])
    assert (result.outcome, result.revision) == (Outcome.UNKNOWN, 0)
    assert await value_of(kit, "a") is None
    await kit.heal()
    await kit.store.get(kit.prefix + "a")
    assert (await kit.store.txn([], [Put(kit.prefix + "a", b"2")])).outcome is Outcome.OK


async def test_a_store_that_is_cut_off_raises_for_reads_and_leases_and_works_again_when_healed(kit: Kit) -> None:
    lease = await kit.store.grant_lease(60)
    await kit.cut_off()
    for call in (kit.store.get("a"), kit.store.range(kit.prefix), kit.store.grant_lease(5), kit.store.keep_alive(lease)):
        with pytest.raises(StoreUnavailable):
            await call
    await kit.store.revoke_lease(lease)  # says nothing
    await kit.heal()
    assert await kit.store.keep_alive(lease) > 0
    await kit.store.revoke_lease(lease)


async def test_a_watch_tells_after_an_outage_what_happened_meanwhile_once(kit: Kit) -> None:
    start = await put(kit, "start")
    watched = Watched(kit.store, kit.prefix, start + 1)
    await put(kit, "a", b"1")
    assert (await watched.batch()).events[0].value == b"1"
    await kit.cut_off()
    waiting = asyncio.ensure_future(watched.events(3))
    for value in (b"2", b"3"):
        await put(kit, "a", value)
    await kit.heal()
    await put(kit, "a", b"4")
    assert [event.value for event in await waiting] == [b"2", b"3", b"4"]
    await watched.close()
