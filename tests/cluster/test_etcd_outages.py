"""Events that only a real server can produce: it hangs, dies, comes back, comes back empty, or is one of several."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.cluster.etcd.etcd_store import EtcdStore, prefix_end
from libs.cluster.scoped_watch import scoped_watch
from libs.cluster.store import Outcome, Put, StoreUnavailable, WatchBatch, WatchGap


@pytest.fixture
async def store(own_etcd: Any) -> AsyncIterator[EtcdStore]:
    store = EtcdStore([own_etcd.endpoint], timeout_s=1)
    await answers(store)
    yield store
    await store.close()


async def answers(store: EtcdStore) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await store.get("ready")
                return
            except StoreUnavailable:
                continue


async def written(store: EtcdStore, key: str, value: bytes) -> int:
    async with asyncio.timeout(30):
        while (result := await store.txn([], [Put(key, value)])).outcome is not Outcome.OK:
            pass
    return result.revision


async def next_events(batches: AsyncIterator[WatchBatch]) -> list[bytes | None]:
    async with asyncio.timeout(30):
        while not (batch := await anext(batches)).events:
            pass
    return [event.value for event in batch.events]


async def test_a_server_that_hangs_leaves_writes_unknown_and_reads_unavailable(own_etcd: Any, store: EtcdStore) -> None:
    own_etcd.pause()
    result = await store.txn([], [Put("/a", b"1")])
    assert (result.outcome, result.revision) == (Outcome.UNKNOWN, 0)
    with pytest.raises(StoreUnavailable):
        await store.get("/a")
    own_etcd.resume()
    await answers(store)


async def test_a_watch_goes_on_where_it_was_after_the_server_was_killed_and_restarted(own_etcd: Any, store: EtcdStore) -> None:
    start = await written(store, "/a", b"0")
    async with scoped_watch(store, "/", start + 1) as batches:
        await written(store, "/a", b"1")
        assert await next_events(batches) == [b"1"]
        waiting = asyncio.ensure_future(next_events(batches))
        own_etcd.stop()
        assert (await store.txn([], [Put("/a", b"lost")])).outcome is Outcome.UNKNOWN
        own_etcd.start()
        await answers(store)
        await written(store, "/a", b"2")
        assert await waiting == [b"2"]


async def test_a_dead_server_costs_next_to_no_processor_time(own_etcd: Any, store: EtcdStore) -> None:
    start = await written(store, "/a", b"0")
    async with scoped_watch(store, "/", start + 1) as batches:
        waiting = asyncio.ensure_future(next_events(batches))
        own_etcd.stop()
        before = time.process_time()
        await asyncio.sleep(2)
        used = time.process_time() - before
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert used < 0.4


async def test_a_store_that_came_back_empty_is_a_gap_and_not_silence(own_etcd: Any, store: EtcdStore) -> None:
    for value in (b"1", b"2", b"3"):
        start = await written(store, "/a", value)
    async with scoped_watch(store, "/", start + 1) as batches:
        waiting = asyncio.ensure_future(next_events(batches))
        own_etcd.stop()
        own_etcd.wipe()
        own_etcd.start()
        with pytest.raises(WatchGap):
            await waiting


async def test_a_dead_endpoint_among_several_is_passed_over(shared_etcd: Any, own_etcd: Any) -> None:
    own_etcd.stop()
    store = EtcdStore([own_etcd.endpoint, shared_etcd.endpoint], timeout_s=3)
    start = await written(store, "/passed-over/a", b"1")
    async with scoped_watch(store, "/passed-over/", start) as batches:
        assert await next_events(batches) == [b"1"]
    lease = await store.grant_lease(30)
    assert await store.keep_alive(lease) > 0
    await store.revoke_lease(lease)
    await store.close()


async def test_a_hanging_endpoint_among_several_is_left(shared_etcd: Any, own_etcd: Any) -> None:
    timeout_s = 6.0
    store = EtcdStore([own_etcd.endpoint, shared_etcd.endpoint], timeout_s=timeout_s)
    await answers(store)
    own_etcd.pause()
    await answers(store)
    begun = time.monotonic()
    await store.get("/a")
    assert time.monotonic() - begun < 0.9 * timeout_s, "it was asked again"
    await store.close()


async def test_closing_the_store_ends_its_watches_with_an_error_and_not_by_cancelling_their_reader(shared_etcd: Any) -> None:
    store = EtcdStore([shared_etcd.endpoint], timeout_s=1)
    await answers(store)
    async with scoped_watch(store, "/", 1_000_000) as batches:

        async def read() -> str:
            try:
                await next_events(batches)
            except (StoreUnavailable, WatchGap) as error:
                return type(error).__name__
            return "events"

        reader = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        await store.close()
        assert await reader in ("StoreUnavailable", "WatchGap")
    with pytest.raises(StoreUnavailable):
        await store.get("/a")
    assert (await store.txn([], [Put("/a", b"")])).outcome is Outcome.UNKNOWN


async def test_a_reader_that_is_cancelled_stays_cancelled(shared_etcd: Any) -> None:
    store = EtcdStore([shared_etcd.endpoint], timeout_s=5)
    start = await written(store, "/cancelled/a", b"")
    async with scoped_watch(store, "/cancelled/", start) as batches:
        await next_events(batches)
        reader = asyncio.ensure_future(next_events(batches))
        await asyncio.sleep(0.05)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
    await store.close()


def test_the_end_of_a_prefix_is_the_first_key_after_it() -> None:
    assert prefix_end("/a/") == b"/a0"
    assert prefix_end("") == b"\0"
    assert prefix_end("ä") == b"\xc3\xa5"


def test_a_store_without_an_endpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="no etcd endpoint"):
        EtcdStore([])
