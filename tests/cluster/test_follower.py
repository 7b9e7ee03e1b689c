"""The image stays, whatever the store does, and catches up when it can."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.metadata_history import next_history
from libs.cluster.records import NodeRecord
from libs.cluster.store import Delete, KeyValue, MetadataStore, Operation, Outcome, Put, RangeResult

Virtually = Callable[[Coroutine[Any, Any, None]], None]


def node(node_id: int, rack: str = "") -> Put:
    return Put(keys.node(node_id), encode(NodeRecord(node_id, rack=rack)))


async def write(store: MetadataStore, *operations: Operation) -> int:
    result = await store.txn([], operations)
    assert result.outcome is Outcome.OK
    return result.revision


class Following:
    """A follower with its own view of the store, which a test can cut off, and all images that its subscriber received."""

    def __init__(self, sound: MemoryStore) -> None:
        self.store = sound.peer()
        self.left: list[ClusterImage] = []
        self.follower = ImageFollower(self.store, on_went_back=self.left.append)
        self.steps: list[tuple[ClusterImage, ClusterImage]] = []

    async def __aenter__(self) -> "Following":
        await self.follower.start()
        self.follower.subscribe(lambda old, new: self.steps.append((old, new)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.follower.close()
        revisions = [image.revision for step in self.steps for image in step]
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
            assert [(old.revision, new.revision) for old, new in following.steps] == [(first - 1, first), (first, second)]

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
            assert following.steps == []
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
            unchanged = following.follower.image.nodes[3]
            following.store.unavailable = True
            await write(sound, Delete(keys.node(1)))
            last = await write(sound, node(2))
            sound.compact(last)
            following.store.unavailable = False
            image = await following.follower.wait_for(last, 5)
            assert set(image.nodes) == {2, 3}
            assert image.nodes[3] is unchanged
            [(old, new)] = following.steps
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
            assert following.steps == []
            last = await write(sound, node(2))
            await following.follower.wait_for(last, 5)
            assert len(following.steps) == 1

    virtually(scenario())


def test_a_subscriber_that_fails_keeps_nobody_else_from_hearing(virtually: Virtually, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        follower = ImageFollower(sound.peer())
        await follower.start()
        revisions: list[int] = []

        def fails(old: ClusterImage, new: ClusterImage) -> None:
            raise KeyError("a bug")

        follower.subscribe(fails)
        end = follower.subscribe(lambda old, new: revisions.append(new.revision))
        first = await write(sound, node(1))
        await follower.wait_for(first, 1)
        end()
        await follower.wait_for(await write(sound, node(2)), 1)
        assert revisions == [first]
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


@pytest.mark.parametrize("written_past", [False, True], ids=["lower revision", "higher revision"])
def test_a_store_that_was_restored_under_a_running_process_is_not_followed(
    virtually: Virtually, written_past: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With a higher revision, the watch handed out the other history's events, and they were applied to the lost one's image."""

    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, Put(keys.CLUSTER_ID, encode("abc")), node(1))
        backup = sound.keyspace.backup()
        last = await write(sound, node(2))
        async with Following(sound) as following:
            await asyncio.sleep(1)
            following.store.unavailable = True
            sound.keyspace.restore(backup)
            for number in range(10 if written_past else 0):
                await write(sound, node(3 + number))
            following.store.unavailable = False
            await asyncio.sleep(60)
            assert set(following.follower.image.nodes) == {1, 2}
            assert (following.steps, following.left) == ([], [following.follower.image])
            assert (following.follower.store_went_back, following.follower.image.revision) == (True, last)

    virtually(scenario())
    assert "metadata store went back in time" in caplog.text


def test_an_outage_that_ends_with_the_same_store_is_no_way_back(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        await write(sound, node(1), node(2))
        async with Following(sound) as following:
            await asyncio.sleep(1)
            following.store.unavailable = True
            await write(sound, Delete(keys.node(1)))
            sound.keyspace.restore(sound.keyspace.backup())  # a start from its own files looks the same to a watch
            last = await write(sound, node(2, "moved"))
            following.store.unavailable = False
            assert set((await following.follower.wait_for(last, 5)).nodes) == {2}
            assert (following.left, following.follower.store_went_back) == ([], False)

    virtually(scenario())


def test_a_history_without_an_entry_that_was_seen_ends_the_following_even_while_the_watch_stands(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        image = ClusterImage()
        for nonce in (1, 2):
            image = replace(image, history=next_history(image, nonce))
            await write(sound, Put(keys.HISTORY, encode(image.history)))
        async with Following(sound) as following:
            entry = await write(sound, Put(keys.HISTORY, encode(next_history(image, 3))))
            await following.follower.wait_for(entry, 5)
            await write(sound, Put(keys.HISTORY, encode(next_history(image, 4))))
            await asyncio.sleep(5)
            assert [entry.nonce for entry in following.follower.image.history.entries] == [1, 2, 3]
            assert following.left == [following.follower.image]

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
            assert [new.revision for _, new in following.steps] == list(range(2, 7))

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


def borrowed(revision: int, *node_ids: int, cluster_id: str = "c") -> ClusterImage:
    """An image as a peer would send it."""
    items = [KeyValue(keys.CLUSTER_ID, encode(cluster_id), 1, 1, 0)]
    items += [KeyValue(keys.node(node_id), encode(NodeRecord(node_id)), 2, 2, 0) for node_id in node_ids]
    return ClusterImage.from_range(RangeResult(tuple(items), revision))


class Lender:
    """A peer that has no image until a test gives it one."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.image = image
        self.asked = 0

    async def borrow(self) -> ClusterImage | None:
        self.asked += 1
        return self.image


def test_a_store_that_answers_is_never_passed_over_for_a_peer(virtually: Virtually) -> None:
    async def scenario() -> None:
        lender = Lender(borrowed(900, 5))
        follower = ImageFollower(MemoryStore(), lender.borrow)
        await follower.start()
        await asyncio.sleep(10)
        assert (follower.verified, lender.asked, set(follower.image.nodes)) == (True, 0, set())
        await follower.close()

    virtually(scenario())


def test_a_process_that_starts_without_the_store_goes_on_from_a_peer_and_then_from_the_store(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        store = sound.peer()
        await write(sound, Put(keys.CLUSTER_ID, encode("c")), node(1))
        store.unavailable = True
        lender = Lender()
        follower = ImageFollower(store, lender.borrow)
        starting = asyncio.create_task(follower.start())
        await asyncio.sleep(5)
        assert lender.asked > 1
        assert not starting.done()
        lender.image = borrowed(2, 1)
        await starting
        notified: list[tuple[ClusterImage, ClusterImage]] = []
        follower.subscribe(lambda old, new: notified.append((old, new)))
        assert (follower.verified, follower.image) == (False, lender.image)
        requests = lender.asked
        revision = await write(sound, node(2, "later"))
        await asyncio.sleep(20)
        assert (follower.verified, lender.asked) == (False, requests)
        store.unavailable = False
        await follower.until_verified()
        assert (follower.image.revision, set(follower.image.nodes)) == (revision, {1, 2})
        assert [(old.revision, new.revision) for old, new in notified] == [(2, revision)]
        last = await write(sound, node(3))
        assert set((await follower.wait_for(last, 1)).nodes) == {1, 2, 3}
        await follower.close()

    virtually(scenario())


def test_a_borrowed_image_is_read_again_even_where_the_store_says_that_nothing_changed(virtually: Virtually) -> None:
    """A peer of an older version may have left out fields that it did not know."""

    async def scenario() -> None:
        sound = MemoryStore()
        store = sound.peer()
        revision = await write(sound, Put(keys.CLUSTER_ID, encode("c")), node(1, "rack"))
        store.unavailable = True
        versions = sound.keyspace.get(keys.node(1))
        assert versions is not None
        items = (KeyValue(keys.node(1), encode(NodeRecord(1)), versions.create_revision, versions.mod_revision, 0),)
        follower = ImageFollower(store, Lender(ClusterImage.from_range(RangeResult(items, revision))).borrow)
        await follower.start()
        notified: list[str] = []
        follower.subscribe(lambda _, new: notified.append(new.nodes[1].rack))
        assert follower.image.nodes[1].rack == ""
        store.unavailable = False
        await follower.until_verified()
        assert notified == ["rack"]
        await follower.close()

    virtually(scenario())


def test_a_store_that_is_behind_the_peers_or_of_another_cluster_is_not_followed(virtually: Virtually) -> None:
    async def scenario() -> None:
        for lent in (borrowed(1000, 7), borrowed(1, 7, cluster_id="other")):
            sound = MemoryStore()
            store = sound.peer()
            await write(sound, Put(keys.CLUSTER_ID, encode("c")), node(1))
            store.unavailable = True
            follower = ImageFollower(store, Lender(lent).borrow)
            await follower.start()
            store.unavailable = False
            await asyncio.sleep(30)
            assert (follower.verified, follower.image) == (False, lent)
            await follower.close()

    virtually(scenario())


def test_a_compacted_store_is_read_anew(virtually: Virtually) -> None:
    async def scenario() -> None:
        sound = MemoryStore()
        store = sound.peer()
        await write(sound, Put(keys.CLUSTER_ID, encode("c")), node(1))
        store.unavailable = True
        follower = ImageFollower(store, Lender(borrowed(2, 1)).borrow)
        await follower.start()
        for number in range(2, 50):
            revision = await write(sound, node(number), Delete(keys.node(number - 1)))
        sound.compact(revision)
        store.unavailable = False
        assert set((await follower.wait_for(revision, 30)).nodes) == {49}
        await follower.close()

    virtually(scenario())
