"""At most one controller writes, whatever is lost, late or paused; and soon there is one again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.election import Election, Leadership
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.records import ElectedController
from libs.cluster.store import CreateRevisionIs, Delete, Outcome, Put

Virtually = Callable[[Coroutine[Any, Any, None]], None]
TTL_S = 2


def election(store: MemoryStore, node_id: int) -> Election:
    return Election(store, keys.CONTROLLER, ElectedController(node_id, 1), TTL_S)


def test_of_two_candidates_one_is_elected_and_the_other_follows_its_resignation_at_once(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        first = await election(store.peer(), 1).campaign()
        waiting = asyncio.ensure_future(election(store.peer(), 2).campaign())
        await asyncio.sleep(3600)
        assert first.valid
        assert not waiting.done()
        begun = asyncio.get_running_loop().time()
        await first.resign()
        second = await waiting
        assert asyncio.get_running_loop().time() - begun < 0.2
        assert (first.valid, second.valid) == (False, True)
        assert first.lost.is_set()
        assert second.guard.revision > first.guard.revision
        await second.resign()

    virtually(scenario())


def test_a_candidate_that_comes_after_a_compaction_hears_of_a_resignation_at_once(virtually: Virtually) -> None:
    """It watched from the key's own revision, which is compacted after minutes, and so looked once a second."""

    async def scenario() -> None:
        store = MemoryStore()
        first = await election(store.peer(), 1).campaign()
        for written in (b"1", b"2"):
            await store.txn([], [Put("/written/since", written)])
        store.compact(store.keyspace.revision)
        waiting = asyncio.ensure_future(election(store.peer(), 2).campaign())
        await asyncio.sleep(3600)
        begun = asyncio.get_running_loop().time()
        await first.resign()
        second = await waiting
        assert asyncio.get_running_loop().time() - begun < 0.2
        await second.resign()

    virtually(scenario())


def test_a_leader_that_is_cut_off_stops_before_another_starts(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        cut = store.peer()
        first = await election(cut, 1).campaign()
        waiting = asyncio.ensure_future(election(store.peer(), 2).campaign())
        await asyncio.sleep(5)
        cut.unavailable = True
        await first.lost.wait()
        assert not waiting.done()
        second = await waiting
        cut.unavailable = False
        late = await cut.txn([first.guard], [Put("/written/by", b"1")])
        assert late.outcome is Outcome.CONFLICT
        assert (await store.txn([second.guard], [Put("/written/by", b"2")])).outcome is Outcome.OK
        await second.resign()

    virtually(scenario())


def test_a_leader_whose_lease_was_revoked_notices(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leadership = await election(store.peer(), 1).campaign()
        record = await store.get(keys.CONTROLLER)
        assert record is not None
        await store.revoke_lease(record.lease)
        async with asyncio.timeout(0.1):
            await leadership.lost.wait()
        assert not leadership.valid

    virtually(scenario())


def test_a_leader_whose_key_a_standby_deleted_notices_even_across_a_gap(virtually: Virtually) -> None:
    async def scenario() -> None:
        for gap in (False, True):
            store = MemoryStore()
            leading = store.peer()
            leadership = await election(leading, 1).campaign()
            await asyncio.sleep(1)
            if gap:
                leading.cancel_watches()
            result = await store.txn([leadership.guard], [Delete(keys.CONTROLLER)])
            assert result.outcome is Outcome.OK
            async with asyncio.timeout(0.5):
                await leadership.lost.wait()

    virtually(scenario())


def test_a_term_survives_short_outages_and_cancelled_watches(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        leading = store.peer()
        leadership = await election(leading, 1).campaign()
        for _ in range(20):
            leading.unavailable = True
            leading.cancel_watches()
            await asyncio.sleep(0.9)
            leading.unavailable = False
            await asyncio.sleep(0.9)
        assert leadership.valid
        await leadership.resign()

    virtually(scenario())


@pytest.mark.parametrize("lost", list(LostAnswer))
def test_an_unknown_answer_to_the_winning_write_is_cleared_up(virtually: Virtually, lost: LostAnswer) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        unlucky = store.peer()
        unlucky.lost_answers += [lost] * 2
        leadership = await election(unlucky, 1).campaign()
        record = await store.get(keys.CONTROLLER)
        assert record is not None
        assert leadership.guard == CreateRevisionIs(keys.CONTROLLER, record.create_revision)
        assert store.keyspace.holds([leadership.guard])
        await asyncio.sleep(60)
        assert leadership.valid
        await leadership.resign()

    virtually(scenario())


def test_a_candidate_does_not_wait_for_its_own_former_term(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        candidate = Election(store.peer(), keys.CONTROLLER, ElectedController(1, 1), 60)
        first = await candidate.campaign()
        first.lose("for a test")  # the key and its lease stay behind
        begun = asyncio.get_running_loop().time()
        second = await candidate.campaign()
        assert asyncio.get_running_loop().time() - begun < 1
        assert second.guard.revision > first.guard.revision
        await second.resign()

    virtually(scenario())


def test_a_cancelled_campaign_leaves_no_key_for_longer_than_its_lease(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        for turns in range(20):
            campaign = asyncio.ensure_future(election(store.peer(), 1).campaign())
            for _ in range(turns):
                await asyncio.sleep(0)
            campaign.cancel()
            done = (await asyncio.gather(campaign, return_exceptions=True))[0]
            if isinstance(done, Leadership):
                await done.resign()
            await asyncio.sleep(TTL_S + 0.1)
            assert await store.get(keys.CONTROLLER) is None

    virtually(scenario())


class Controllers:
    """Three candidates that write for as long as they believe that they lead, each over a store of its own."""

    def __init__(self) -> None:
        self.sound = MemoryStore()
        self.stores = [self.sound.peer() for _ in range(3)]
        self.led: dict[int, int] = {}
        """The candidate that held the term, by create revision."""
        self.current: list[Leadership | None] = [None] * 3
        self.writes: list[int] = []

    async def run(self, index: int) -> None:
        store = self.stores[index]
        candidate = election(store, index)
        while True:
            leadership = await candidate.campaign()
            assert self.led.setdefault(leadership.guard.revision, index) == index
            self.current[index] = leadership
            while not leadership.lost.is_set():
                await self.write(leadership, index)
            # One more write: a request that a deposed controller had in flight.
            await self.write(leadership, index)

    async def write(self, leadership: Leadership, index: int) -> None:
        result = await self.stores[index].txn([leadership.guard], [Put("/counter", str(index).encode())])
        if result.outcome is Outcome.OK:
            record = self.sound.keyspace.get(keys.CONTROLLER)
            self.writes.append(leadership.guard.revision)
            assert record is None or record.create_revision >= leadership.guard.revision
        await asyncio.sleep(0.05)

    def leaders(self) -> list[int]:
        return [index for index, leadership in enumerate(self.current) if leadership is not None and leadership.valid]

    def guards_that_hold(self) -> int:
        return sum(each is not None and self.sound.keyspace.holds([each.guard]) for each in self.current)


faults = st.lists(
    st.tuples(
        st.sampled_from(["cut", "heal", "lose applied", "lose not applied", "cancel watches", "compact"]),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.5]),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(steps=faults)
def test_two_controllers_never_hold_a_valid_guard_and_healed_ones_elect_one(virtually: Virtually, steps: Any) -> None:
    async def scenario() -> None:
        controllers = Controllers()
        tasks = [asyncio.ensure_future(controllers.run(index)) for index in range(3)]
        for fault, index, pause in steps:
            store = controllers.stores[index]
            match fault:
                case "cut":
                    store.unavailable = True
                case "heal":
                    store.unavailable = False
                case "lose applied":
                    store.lost_answers.append(LostAnswer.APPLIED)
                case "lose not applied":
                    store.lost_answers.append(LostAnswer.NOT_APPLIED)
                case "cancel watches":
                    store.cancel_watches()
                case _:
                    controllers.sound.compact(controllers.sound.keyspace.revision)
            await asyncio.sleep(pause)
            assert len(controllers.leaders()) <= 1
            assert controllers.guards_that_hold() <= 1
        for store in controllers.stores:
            store.unavailable = False
        await asyncio.sleep(4 * TTL_S)
        assert len(controllers.leaders()) == 1
        assert controllers.guards_that_hold() == 1
        assert controllers.writes == sorted(controllers.writes)  # no term writes after a later one has
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    virtually(scenario())


async def test_on_etcd_the_next_one_is_elected_when_the_leader_resigns_or_falls_silent(shared_etcd: Any) -> None:
    proxy = shared_etcd.proxy()
    await proxy.start()
    first_store, second_store = EtcdStore([proxy.endpoint], timeout_s=1), EtcdStore([shared_etcd.endpoint], timeout_s=1)
    async with asyncio.timeout(60):
        first = await Election(first_store, keys.CONTROLLER, ElectedController(1, 1), 1).campaign()
        waiting = asyncio.ensure_future(Election(second_store, keys.CONTROLLER, ElectedController(2, 1), 1).campaign())
        assert (await first_store.txn([first.guard], [Put("/election/by", b"1")])).outcome is Outcome.OK
        proxy.swallow_requests = True
        await first.lost.wait()
        second = await waiting
        await proxy.reset_connections()
        await first_store.get("/election/by")
        assert (await first_store.txn([first.guard], [Put("/election/by", b"1")])).outcome is Outcome.CONFLICT
        assert (await second_store.txn([second.guard], [Put("/election/by", b"2")])).outcome is Outcome.OK
        await second.resign()
        third = await Election(first_store, keys.CONTROLLER, ElectedController(1, 1), 1).campaign()
        assert third.guard.revision > second.guard.revision
        await third.resign()
    await first_store.close()
    await second_store.close()
    await proxy.close()
