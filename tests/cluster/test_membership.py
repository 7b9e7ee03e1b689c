"""Membership: live processes are listed, and replaced ones do not come back."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image_follower import ImageFollower
from libs.cluster.membership import Membership
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.records import Member
from libs.cluster.scoped_watch import scoped_watch
from libs.cluster.store import Compare, Delete, MetadataStore, Operation, Outcome, Put, TxnResult, WatchBatch

Virtually = Callable[[Coroutine[Any, Any, None]], None]
KEY = keys.member("storage", 1)


def member(incarnation: int, rack: str = "") -> Member:
    return Member("storage", 1, incarnation, "host", rack=rack)


async def first(count: int, batches: AsyncIterator[WatchBatch]) -> AsyncIterator[WatchBatch]:
    while count:
        batch = await anext(batches)
        if batch.events:
            count -= 1
            yield batch


async def listed(store: MetadataStore) -> Member | None:
    record = await store.get(KEY)
    return None if record is None else decode(Member, record.value)


def test_a_member_is_listed_while_it_lives_and_gone_once_it_leaves(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        membership = Membership(store.peer(), member(1), 2)
        await membership.start()
        assert membership.registered
        assert membership.revision == store.keyspace.revision
        await asyncio.sleep(3600)
        assert await listed(store) == member(1)
        await membership.close()
        assert await listed(store) is None
        assert not membership.registered

    virtually(scenario())


class DenyingStore(MemoryStore):
    """As etcd does for a user who may not write."""

    denies = True
    leases = 0

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        return TxnResult(Outcome.DENIED, 0) if self.denies else await super().txn(compares, operations)

    async def grant_lease(self, ttl_s: int) -> int:
        self.leases += 1
        return await super().grant_lease(ttl_s)


def test_a_member_that_etcd_denies_registers_once_it_may_by_the_lease_that_it_has(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = DenyingStore()
        membership = Membership(store, member(1), 2)
        starting = asyncio.ensure_future(membership.start())
        await asyncio.sleep(60)
        assert not starting.done()
        store.denies = False
        await starting
        assert (await listed(store), store.leases) == (member(1), 1)
        await membership.close()

    virtually(scenario())


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The log messages about lost and regained memberships."""
    return [(record.levelname, record.message) for record in caplog.records if record.message.startswith("membership")]


LOST_AND_REGAINED = [("WARNING", "membership lost"), ("INFO", "membership regained")]


def test_a_lost_membership_and_its_return_are_reported_once_each(virtually: Virtually, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        cut = store.peer()
        membership = Membership(cut, member(1), 2)
        await membership.start()
        await membership.update(member(1, "rack-b"))
        assert logged(caplog) == []
        for _ in range(2):
            caplog.clear()
            cut.unavailable = True
            await asyncio.sleep(10)
            assert logged(caplog) == LOST_AND_REGAINED[:1]
            cut.unavailable = False
            await asyncio.sleep(60)
            assert logged(caplog) == LOST_AND_REGAINED
        await membership.close()

    caplog.set_level(logging.INFO)
    virtually(scenario())


def test_a_member_that_is_cut_off_vanishes_and_comes_back_by_itself(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        cut = store.peer()
        membership = Membership(cut, member(1), 2)
        await membership.start()
        cut.unavailable = True
        await asyncio.sleep(10)
        assert await listed(store) is None
        assert not membership.registered
        cut.unavailable = False
        await asyncio.sleep(3)
        assert await listed(store) == member(1)
        assert membership.registered
        await membership.close()

    virtually(scenario())


def test_a_short_outage_is_no_loss(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        cut = store.peer()
        membership = Membership(cut, member(1), 3)
        await membership.start()
        for _ in range(10):
            cut.unavailable = True
            await asyncio.sleep(1.5)
            cut.unavailable = False
            await asyncio.sleep(1.5)
        assert membership.revision == store.keyspace.revision
        await membership.close()

    virtually(scenario())


def test_a_lease_that_somebody_revoked_is_replaced_by_a_new_registration(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        membership = Membership(store.peer(), member(1), 3)
        await membership.start()
        record = await store.get(KEY)
        assert record is not None
        await store.revoke_lease(record.lease)
        assert await listed(store) is None
        await asyncio.sleep(2)
        assert await listed(store) == member(1)
        await membership.close()

    virtually(scenario())


def test_a_new_incarnation_replaces_the_old_one_at_once_and_outlives_its_lease(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        dead = store.peer()
        old = Membership(dead, member(1), 5)
        await old.start()
        dead.unavailable = True  # as a process that was killed: its lease is still there
        new = Membership(store.peer(), member(2), 5)
        await new.start()
        assert await listed(store) == member(2)
        await asyncio.sleep(20)
        assert await listed(store) == member(2)
        await new.close()
        await old.close()

    virtually(scenario())


def test_a_process_whose_incarnation_went_back_replaces_its_dead_former_self(virtually: Virtually) -> None:
    """Its data directory was emptied, and its clock is behind."""

    async def scenario() -> None:
        store = MemoryStore()
        dead = store.peer()
        old = Membership(dead, member(9), 5)
        await old.start()
        dead.unavailable = True
        superseded: list[Member] = []
        new = Membership(store.peer(), member(2), 5, on_superseded=superseded.append)
        await new.start()
        await asyncio.sleep(20)
        assert await listed(store) == member(2)
        assert not superseded
        await new.close()
        await old.close()

    virtually(scenario())


def test_the_older_of_two_processes_with_one_id_gives_way_and_says_so(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        paused = store.peer()
        by: list[Member] = []
        old = Membership(paused, member(1), 2, on_superseded=by.append)
        await old.start()
        paused.unavailable = True
        new = Membership(store.peer(), member(2), 2)
        await new.start()
        await asyncio.sleep(10)
        paused.unavailable = False
        await asyncio.sleep(10)
        assert await listed(store) == member(2)
        assert by == [member(2)]
        assert not old.registered
        await old.close()
        assert await listed(store) == member(2)
        await new.close()

    virtually(scenario())


def test_a_process_whose_id_is_taken_hears_of_it_from_the_image_though_its_lease_lives_on(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        follower = ImageFollower(store.peer())
        await follower.start()
        by: list[Member] = []
        old = Membership(store.peer(), member(1), 2, on_superseded=by.append)
        follower.subscribe(old.follow)
        await old.start()
        await old.update(member(1, "rack-b"))
        await follower.wait_for(old.revision, 5)
        assert by == []
        new = Membership(store.peer(), member(2), 2)
        await new.start()
        await follower.wait_for(new.revision, 5)
        await new.update(member(2, "rack-c"))
        await follower.wait_for(new.revision, 5)
        assert by == [member(2)]
        assert not old.registered
        await asyncio.sleep(60)
        await old.close()
        assert await listed(store) == member(2, "rack-c")
        await new.close()
        await follower.close()

    virtually(scenario())


def test_an_unknown_answer_is_read_again_and_registration_ends_well_either_way(virtually: Virtually) -> None:
    async def scenario() -> None:
        for lost in LostAnswer:
            store = MemoryStore()
            unlucky = store.peer()
            unlucky.lost_answers += [lost, lost]
            membership = Membership(unlucky, member(1), 2)
            await membership.start()
            assert await listed(store) == member(1)
            record = await store.get(KEY)
            assert record is not None
            assert membership.revision == record.mod_revision
            await membership.close()
            assert await listed(store) is None

    virtually(scenario())


def test_a_member_can_say_something_new_about_itself(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        membership = Membership(store.peer(), member(1), 2)
        await membership.start()
        await membership.update(member(1, "rack-b"))
        assert await listed(store) == member(1, "rack-b")
        await asyncio.sleep(60)
        assert await listed(store) == member(1, "rack-b")
        await membership.close()

    virtually(scenario())


def test_a_start_during_an_outage_waits_for_its_end(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        store.unavailable = True
        membership = Membership(store, member(1), 2)
        starting = asyncio.ensure_future(membership.start())
        await asyncio.sleep(50)
        assert not starting.done()
        store.unavailable = False
        await starting
        assert await listed(store) == member(1)
        await membership.close()

    virtually(scenario())


async def test_on_etcd_a_member_outlives_its_first_lease_and_a_restart_of_the_server(own_etcd: Any) -> None:
    store = EtcdStore([own_etcd.endpoint], timeout_s=1)
    membership = Membership(store, member(1), 1)
    async with asyncio.timeout(60):
        await membership.start()
        record = await store.get(KEY)
        assert record is not None
        await store.revoke_lease(record.lease)
        async with scoped_watch(store, KEY, record.mod_revision + 1) as batches:
            seen = [event.value is not None async for batch in first(2, batches) for event in batch.events]
        assert seen == [False, True]
        own_etcd.stop()
        own_etcd.start()
        await asyncio.sleep(2.5)  # longer than any earlier lease: only a refresh, or a new registration, can explain the key
        assert await listed(store) == member(1)
    await membership.close()
    assert await listed(store) is None
    await store.close()


def test_a_member_whose_key_was_deleted_though_it_lives_registers_again(
    virtually: Virtually, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        membership = Membership(store.peer(), member(1), 3600)
        follower = ImageFollower(store.peer())
        await follower.start()
        follower.subscribe(membership.follow)
        await membership.start()
        for _ in range(3):
            taken_for_dead = await store.txn([], [Delete(KEY)])
            await follower.wait_for(taken_for_dead.revision + 1, 1.0)
            assert await listed(store) == member(1)
        assert logged(caplog) == LOST_AND_REGAINED * 3
        await membership.close()
        assert await listed(store) is None
        await follower.wait_for(store.keyspace.revision, 1.0)
        assert logged(caplog) == LOST_AND_REGAINED * 3, "who leaves misses nothing"
        await follower.close()

    caplog.set_level(logging.INFO)
    virtually(scenario())


def test_a_member_that_was_taken_for_dead_does_not_come_back_over_its_next_life(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        replaced: list[Member] = []
        membership = Membership(store.peer(), member(1), 3600, on_superseded=replaced.append)
        late = store.peer()
        late.watch_delay_s = 1.0
        follower = ImageFollower(late)
        await follower.start()
        follower.subscribe(membership.follow)
        await membership.start()
        await store.txn([], [Delete(KEY)])
        await store.txn([], [Put(KEY, encode(member(2)))])
        await asyncio.sleep(10)
        assert await listed(store) == member(2)
        assert replaced == [member(2)]
        await follower.close()
        await membership.close()

    virtually(scenario())


@pytest.mark.parametrize("late", [member(1), member(2)], ids=["of a former life", "our own"])
def test_a_registration_that_was_given_up_and_lands_late_is_replaced(virtually: Virtually, late: Member) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        replaced: list[Member] = []
        membership = Membership(store.peer(), member(2), 2, on_superseded=replaced.append)
        follower = ImageFollower(store.peer())
        await follower.start()
        follower.subscribe(membership.follow)
        await membership.start()
        await membership.update(member(2, "rack-b"))
        await store.txn([], [Put(KEY, encode(late))])
        await asyncio.sleep(1)
        assert await listed(store) == member(2, "rack-b")
        assert membership.registered
        assert replaced == []
        revision = store.keyspace.revision
        await asyncio.sleep(60)
        assert store.keyspace.revision == revision
        await follower.close()
        await membership.close()

    virtually(scenario())


def test_a_former_lifes_registration_that_lands_while_we_are_cut_off_is_replaced(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        replaced: list[Member] = []
        cut = store.peer()
        membership = Membership(cut, member(2), 2, on_superseded=replaced.append)
        await membership.start()
        cut.unavailable = True
        await asyncio.sleep(10)
        assert await listed(store) is None
        await store.txn([], [Put(KEY, encode(member(1)))])
        cut.unavailable = False
        await asyncio.sleep(10)
        assert await listed(store) == member(2)
        assert replaced == []
        await membership.close()

    virtually(scenario())
