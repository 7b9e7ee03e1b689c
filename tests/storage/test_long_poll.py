"""Fetches that wait: for bytes, for a minimum of them, and no longer than asked."""

import asyncio

from libs.rpc.contracts.storage import FETCH, Fetch, FetchPartition
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, fetched, parked
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


async def test_a_waiting_fetch_wakes_when_its_record_is_committed_and_not_before(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("polled")
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000)
    await until(lambda: parked(cluster) == 1)
    disk.hold()
    sent = cluster.send([(topic, 0, batch(b"x"))])
    await cluster.list_offset(topic, -1)  # the append was accepted before this
    assert not waiting.done()
    disk.release()
    (answer,) = fetched(await waiting)
    assert (answer.high_watermark, len(answer.ranges)) == (1, 1)
    assert appended(await sent)[0].error == 0
    assert parked(cluster) == 0


async def test_a_fetch_waits_for_its_minimum(cluster: StorageCluster) -> None:
    topic = await cluster.topic("minimum")
    one = batch(b"x" * 100)
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000, min_bytes=2 * len(one))
    await until(lambda: parked(cluster) == 1)
    await cluster.append(topic, one)
    assert not waiting.done()
    await cluster.append(topic, one)
    (answer,) = fetched(await waiting)
    assert answer.ranges[0].length == 2 * len(one)


async def test_a_fetch_ends_after_its_wait_with_what_there_is(cluster: StorageCluster) -> None:
    topic = await cluster.topic("impatient")
    await cluster.append(topic, batch(b"x"))
    (answer,) = fetched(await cluster.fetching(topic, 0, max_wait_ms=30, min_bytes=10_000))
    assert len(answer.ranges) == 1
    (empty,) = fetched(await cluster.fetching(topic, 1, max_wait_ms=30))
    assert (empty.error, empty.ranges, empty.high_watermark) == (0, (), 1)


async def test_an_error_is_not_kept_waiting(cluster: StorageCluster) -> None:
    topic = await cluster.topic("wrong")
    for changes, error in (
        ({"fetch_offset": 5}, 1),
        ({"fetch_offset": 0, "current_leader_epoch": 9}, 75),
        ({"fetch_offset": -1}, 1),
    ):
        (answer,) = fetched(
            await cluster.fetching(
                topic, changes["fetch_offset"], max_wait_ms=8000, current_leader_epoch=changes.get("current_leader_epoch", -1)
            )
        )
        assert answer.error == error


async def test_a_caller_that_goes_away_leaves_nothing_parked(cluster: StorageCluster) -> None:
    topic = await cluster.topic("left")
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000)
    await until(lambda: parked(cluster) == 1)
    waiting.cancel()
    await until(lambda: parked(cluster) == 0)
    cluster.fetching(topic, 0, max_wait_ms=8000).add_done_callback(lambda done: done.exception())
    await until(lambda: parked(cluster) == 1)
    assert cluster.client is not None
    await cluster.client.close()
    await until(lambda: parked(cluster) == 0)


async def test_a_stopping_node_answers_parked_fetches_and_parks_no_more(cluster: StorageCluster) -> None:
    topic = await cluster.topic("stopping")
    waiting = cluster.fetching(topic, 0, max_wait_ms=8000)
    await until(lambda: parked(cluster) == 1)
    assert cluster.node is not None
    cluster.node.opened.fetches.close()
    late = cluster.fetching(topic, 0, max_wait_ms=1_000_000)
    for reply in (waiting, late):
        (answer,) = fetched(await reply)
        assert (answer.error, answer.ranges) == (0, ())
    assert parked(cluster) == 0


async def test_a_fetch_of_many_partitions_shares_its_budget_in_order(cluster: StorageCluster) -> None:
    topic = await cluster.topic("shared", partitions=3)
    one = batch(b"x" * 1000)
    for index in (1, 2):
        await asyncio.gather(*(cluster.append(topic, one, index=index) for _ in range(4)))
    wanted = tuple(FetchPartition(topic, index, 0, 1 << 20) for index in range(3))

    async def lengths(max_bytes: int) -> list[int]:
        assert cluster.client is not None
        response = await cluster.client.call(FETCH, Fetch(0, 1, max_bytes, 0, wanted), timeout_s=WAIT_S)
        return [sum(place.length for place in answer.ranges) for answer in fetched(response)]

    size = len(one)
    assert await lengths(1 << 20) == [0, 4 * size, 4 * size]
    assert await lengths(5 * size) == [0, 4 * size, size]
    assert await lengths(10) == [0, size, 0]  # the first non-empty partition gets one whole batch, over any limit
