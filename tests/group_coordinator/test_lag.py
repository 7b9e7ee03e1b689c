"""The lag of consumers, as the leaders of their partitions report it, and only on request."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from libs.clock import SystemClock, WallMs
from libs.cluster import keys
from libs.cluster.image_follower import ImageFollower
from libs.rpc.client.rpc_client import Hello
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.storage_nodes import StorageNodes
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.records import Record, build_batch
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.lag import lag_meter
from services.group_coordinator.lag.lag_meter import RECORDS_BYTES_MAX, RECORDS_LOOKED_AT_MAX, Lag, LagMeter
from tests.storage.cluster import WAIT_S, StorageCluster, batch
from tests.support.polling import until

NOW_MS = 1_700_000_100_000


class SetClock(SystemClock):
    """The clock of the meter. The node's goes on."""

    def wall_ms(self) -> WallMs:
        return WallMs(NOW_MS)


class Meter:
    def __init__(self, cluster: StorageCluster) -> None:
        hello = Hello("group_coordinator", 1, 1, "test", 1, "test-cluster")
        self.nodes = StorageNodes(lambda: hello, "this-host", SocketTransport())
        self.follower = ImageFollower(cluster.store)
        self.lag = LagMeter(lambda: self.follower.image, self.nodes, SetClock())

    async def of(self, *offsets: OffsetCommitted) -> list[Lag]:
        async with asyncio.timeout(WAIT_S):
            result = await self.lag.of(offsets)
        return [result[each.topic, each.partition] for each in offsets]

    def counts(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The methods that are called from now on."""
        called: list[str] = []
        client: Any = self.nodes.client(1)
        call: Callable[..., Any] = client.call

        def counted(method: str, *rest: Any, **more: Any) -> Any:
            called.append(method)
            return call(method, *rest, **more)

        monkeypatch.setattr(client, "call", counted)
        return called


@pytest.fixture
async def meter(node: StorageCluster) -> AsyncIterator[Meter]:
    made = Meter(node)
    await made.follower.start()
    made.nodes.follow(made.follower.image)
    yield made
    await made.follower.close()
    await made.nodes.close()


async def made(node: StorageCluster, meter: Meter, name: str = "t", partitions: int = 1) -> bytes:
    topic = await node.topic(name, partitions=partitions)
    await until(lambda: name in meter.follower.image.topics)
    return topic


def at(offset: int, topic: str = "t", partition: int = 0, **more: Any) -> OffsetCommitted:
    return OffsetCommitted("g", topic, partition, offset, **more)


async def test_unread_records_are_counted_from_the_committed_offset_on(node: StorageCluster, meter: Meter) -> None:
    topic = await made(node, meter)
    for seconds in (100, 60, 10):
        await node.append(topic, batch(b"a", timestamp=NOW_MS - seconds * 1000))
    assert await meter.of(at(0)) == [Lag(0, 0, 3, 3, 100.0)]
    assert await meter.of(at(2)) == [Lag(0, 0, 3, 1, 10.0)]
    assert await meter.of(at(3)) == [Lag(0, 0, 3, 0, 0.0)]
    assert await meter.of(at(9)) == [Lag(0, 0, 3, 0, 0.0)], "of a log that was cut"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
async def test_within_a_batch_each_record_has_its_own_time(node: StorageCluster, meter: Meter, codec: Codec) -> None:
    topic = await made(node, meter)
    records = [Record(None, b"r", NOW_MS - seconds * 1000) for seconds in (50, 40, 30)]
    await node.append(topic, bytes(build_batch(records, codec=codec)))
    assert [result.seconds for offset in (0, 1, 2) for result in await meter.of(at(offset))] == [50.0, 40.0, 30.0]


@pytest.mark.parametrize("records", [[b"r"] * (RECORDS_LOOKED_AT_MAX + 1), [b"\0" * RECORDS_BYTES_MAX, b"r"]])
async def test_within_a_large_batch_it_is_that_of_the_first(node: StorageCluster, meter: Meter, records: list[bytes]) -> None:
    topic = await made(node, meter)
    timed = [Record(None, value, NOW_MS - 50_000 + index) for index, value in enumerate(records)]
    await node.append(topic, bytes(build_batch(timed, codec=Codec.GZIP)))
    assert [result.seconds for result in await meter.of(at(len(records) - 1))] == [50.0]


@pytest.mark.parametrize("codec", list(Codec))
async def test_of_a_large_batch_only_the_beginning_is_asked_for(
    node: StorageCluster, meter: Meter, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers choose its size. Eight are asked for at once, and their records are looked at on the event loop."""
    topic = await made(node, meter)
    timed = [Record(None, random.Random(index).randbytes(1000), NOW_MS - 50_000 + index) for index in range(800)]
    await node.append(topic, bytes(build_batch(timed, codec=codec)))
    received: list[int] = []
    time_in = lag_meter._time_in

    def noted(batch: memoryview, offset: int) -> int | None:
        received.append(len(batch))
        return time_in(batch, offset)

    monkeypatch.setattr(lag_meter, "_time_in", noted)
    near, far = [(await meter.of(at(offset)))[0].seconds for offset in (30, 700)]
    assert received == [RECORDS_BYTES_MAX] * 2
    assert far == 50.0
    assert near == 50.0 if codec in (Codec.LZ4, Codec.ZSTD) else 49.97, "their first block is cut"


async def test_deleted_records_do_not_count_as_lag(node: StorageCluster, meter: Meter) -> None:
    topic = await made(node, meter)
    for seconds in (100, 60, 10):
        await node.append(topic, batch(b"a", timestamp=NOW_MS - seconds * 1000))
    await node.delete_records(topic, 2)
    assert await meter.of(at(0)) == [Lag(0, 2, 3, 1, 10.0)]


async def test_a_record_from_the_future_is_as_old_as_none(node: StorageCluster, meter: Meter) -> None:
    topic = await made(node, meter)
    await node.append(topic, batch(b"a", timestamp=NOW_MS + 10_000))
    assert await meter.of(at(0)) == [Lag(0, 0, 1, 1, 0.0)]


async def test_records_of_transactions_are_counted_and_not_read(
    node: StorageCluster, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage node would deny it, and log that each time. Here `t` has the name of their topic."""
    monkeypatch.setattr("services.group_coordinator.lag.lag_meter.TRANSACTION_TOPIC", "t")
    topic = await made(node, meter)
    await node.append(topic, batch(b"a", timestamp=NOW_MS - 1000))
    called = meter.counts(monkeypatch)
    assert await meter.of(at(0)) == [Lag(0, 0, 1, 1, None)]
    assert called == ["storage.list_offsets"]


async def test_topics_that_are_gone_or_made_anew_are_not_known(node: StorageCluster, meter: Meter) -> None:
    topic = await made(node, meter)
    result = await meter.of(at(0, "nothing"), at(0, partition=7), at(0, topic_id=b"\7" * 16))
    assert result == [Lag(3)] * 3
    assert await meter.of(at(0, topic_id=topic)) == [Lag(0, 0, 0, 0, 0.0)]


async def test_a_leader_that_does_not_answer_is_an_error_and_no_more(node: StorageCluster, meter: Meter) -> None:
    topic = await made(node, meter)
    await node.stop()
    assert await meter.of(at(0)) == [Lag(7)]
    await node.state(topic, epoch=1, leader=-1)
    await meter.follower.wait_for((await node.store.range(keys.PREFIX)).revision, WAIT_S)
    assert await meter.of(at(0)) == [Lag(5)]


async def test_leaders_are_asked_once_a_second_and_once_for_all(
    node: StorageCluster, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await made(node, meter, partitions=20)
    await node.append(topic, batch(b"a", timestamp=NOW_MS - 5000))
    called = meter.counts(monkeypatch)
    offsets = [at(0, partition=index) for index in range(20)]
    first = await meter.of(*offsets)
    assert (first[0].seconds, first[1].seconds) == (5.0, 0.0)
    assert called == ["storage.list_offsets", "storage.fetch"]
    assert await meter.of(*offsets) == first
    assert len(called) == 2
