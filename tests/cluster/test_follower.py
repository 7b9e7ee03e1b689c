"""The image stays, whatever the store does, and catches up when it can."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd_store import EtcdStore
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.memory_keyspace import Keyspace
from libs.cluster.memory_store import MemoryStore
from libs.cluster.records import NodeRecord
from libs.cluster.store import Delete, MetadataStore, Operation, Outcome, Put

Virtually = Callable[[Coroutine[Any, Any, None]], None]


def node(node_id: int, rack: str = "") -> Put:
    return Put(keys.node(node_id), encode(NodeRecord(node_id, rack=rack)))


async def write(store: MetadataStore, *operations: Operation) -> int:
    result = await store.txn([], operations)
    assert result.outcome is Outcome.OK
    return result.revision


class Following:
    """A follower with a store of its own to be cut off from, and all that its subscriber was told."""

    def __init__(self, sound: MemoryStore) -> None:
        self.store = sound.peer()
        self.follower = ImageFollower(self.store)
        self.told: list[tuple[ClusterImage, ClusterImage]] = []

    async def __aenter__(self) -> "Following":
        await self.follower.start()
        self.follower.subscribe(lambda old, new: self.told.append((old, new)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.follower.close()
        revisions = [image.revision for step in self.told for image in step]
        assert revisions == sorted(revisions)


def test_a_follower_starts_with_what_is_there_and_tells_what_comes(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1))
        async with Following(sound) as following:
            assert set(following.follower.image.nodes) == {1}
            first = await write(sound, node(2))
            second = await write(sound, Delete(keys.node(1)))
            image = await following.follower.wait_for(second, 1)
            assert set(image.nodes) == {2}
            assert [(old.revision, new.revision) for old, new in following.told] == [(first - 1, first), (first, second)]

    virtually(scenario())


def test_waiting_for_a_revision_that_does_not_come_ends_in_time(virtually: Virtually) -> None:
    async def scenario() -> None:
        async with Following(MemoryStore()) as following:
            begun = asyncio.get_running_loop().time()
            with pytest.raises(TimeoutError):
                await following.follower.wait_for(99, 2.5)
            assert asyncio.get_running_loop().time() - begun == 2.5
            assert await following.follower.wait_for(1, 0) is following.follower.image

    virtually(scenario())


def test_an_outage_keeps_the_last_image_and_what_was_missed_arrives_afterwards(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1))
        async with Following(sound) as following:
            following.store.unavailable = True
            await write(sound, Delete(keys.node(1)))
            last = await write(sound, node(2))
            await asyncio.sleep(3600)
            assert set(following.follower.image.nodes) == {1}
            assert following.told == []
            following.store.unavailable = False
            assert set((await following.follower.wait_for(last, 5)).nodes) == {2}

    virtually(scenario())


def test_a_start_during_an_outage_waits_for_its_end(virtually: Virtually) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        store.unavailable = True
        follower = ImageFollower(store)
        starting = asyncio.ensure_future(follower.start())
        await asyncio.sleep(100)
        assert not starting.done()
        store.unavailable = False
        await starting
        assert follower.image.revision == 1
        await follower.close()

    virtually(scenario())


def test_a_gap_is_crossed_by_listing_again(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1), node(3))
        async with Following(sound) as following:
            kept = following.follower.image.nodes[3]
            following.store.unavailable = True
            await write(sound, Delete(keys.node(1)))
            last = await write(sound, node(2))
            sound.compact(last)
            following.store.unavailable = False
            image = await following.follower.wait_for(last, 5)
            assert set(image.nodes) == {2, 3}
            assert image.nodes[3] is kept
            [(old, new)] = following.told
            assert (set(old.nodes), set(new.nodes)) == ({1, 3}, {2, 3})

    virtually(scenario())


def test_a_cancelled_watch_that_missed_nothing_tells_nobody(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1))
        async with Following(sound) as following:
            await asyncio.sleep(1)
            following.store.cancel_watches()
            await asyncio.sleep(1)
            assert following.told == []
            last = await write(sound, node(2))
            await following.follower.wait_for(last, 5)
            assert len(following.told) == 1

    virtually(scenario())


def test_a_subscriber_that_fails_keeps_nobody_else_from_hearing(virtually: Virtually, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        follower = ImageFollower(sound.peer())
        await follower.start()
        heard: list[int] = []

        def fails(old: ClusterImage, new: ClusterImage) -> None:
            raise KeyError("a bug")

        follower.subscribe(fails)
        end = follower.subscribe(lambda old, new: heard.append(new.revision))
        first = await write(sound, node(1))
        await follower.wait_for(first, 1)
        end()
        await follower.wait_for(await write(sound, node(2)), 1)
        assert heard == [first]
        await follower.close()

    virtually(scenario())
    assert "subscriber to the cluster image failed" in caplog.text


def test_a_record_that_cannot_be_read_stops_the_image_until_it_is_mended(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1))
        async with Following(sound) as following:
            await write(sound, Put(keys.node(1), b"broken"))
            beside = await write(sound, node(2))
            await asyncio.sleep(60)
            assert set(following.follower.image.nodes) == {1}
            assert following.follower.image.revision < beside
            mended = await write(sound, node(1, "r"))
            image = await following.follower.wait_for(mended, 5)
            assert image.nodes == {1: NodeRecord(1, rack="r"), 2: NodeRecord(2)}

    virtually(scenario())


def test_a_store_that_lost_its_history_is_not_followed(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, Put(keys.CLUSTER_ID, encode("abc")), node(1))
        last = await write(sound, node(2))
        async with Following(sound) as following:
            await asyncio.sleep(1)
            following.store.keyspace = Keyspace()
            following.store.cancel_watches()
            await asyncio.sleep(60)
            assert set(following.follower.image.nodes) == {1, 2}
            assert following.follower.image.revision == last

    virtually(scenario())


def test_a_delayed_watch_still_arrives_in_order(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        async with Following(sound) as following:
            following.store.watch_delay_s = 0.3
            last = 0
            for number in range(5):
                last = await write(sound, node(number))
            assert following.follower.image.nodes == {}
            assert set((await following.follower.wait_for(last, 5)).nodes) == set(range(5))
            assert [new.revision for _, new in following.told] == list(range(2, 7))

    virtually(scenario())


async def test_a_follower_keeps_its_image_while_etcd_is_down_and_goes_on_when_it_is_back(own_etcd: Any) -> None:
    store = EtcdStore([own_etcd.endpoint], timeout_s=1)
    follower = ImageFollower(store)
    async with asyncio.timeout(30):
        await follower.start()
        await follower.wait_for(await write(store, node(1)), 10)
        own_etcd.stop()
        assert (await store.txn([], [node(2)])).outcome is Outcome.UNKNOWN
        assert set(follower.image.nodes) == {1}
        own_etcd.start()
        while (result := await store.txn([], [node(3)])).outcome is not Outcome.OK:
            pass
        assert set((await follower.wait_for(result.revision, 10)).nodes) == {1, 3}
    await follower.close()
    await store.close()
