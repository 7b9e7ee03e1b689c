"""The end of a log counts what was acknowledged before the question, also with acks=1 and between two rounds of syncs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from libs.rpc.contracts.storage import DeletedRecords, ListedOffset
from services.storage.core import sync_states
from services.storage.partition import acknowledged_ends
from services.storage.partition.acknowledged_ends import AcknowledgedEnds
from tests.storage.cluster import StorageCluster, batch, partition_of
from tests.storage.held_disk import HeldDisk
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until

LATEST, MAX_TIMESTAMP, EARLIEST = -1, -3, -2
START = 1_700_000_000_000
AN_HOUR_S = 3600.0


@pytest.fixture
def rounds_an_hour_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_states, "PACE_S", AN_HOUR_S)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledged_ends, "END_S_MAX", AN_HOUR_S)


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


async def store(cluster: StorageCluster, topic: bytes, records: int) -> None:
    """Acknowledged by the leader alone, each between two rounds of syncs."""
    await cluster.append(topic, batch(b"first", timestamp=START))
    for number in range(1, records):
        assert (await cluster.append(topic, batch(b"x", timestamp=START + number), acks=1)).error == 0


@pytest.mark.usefixtures("rounds_an_hour_apart", "patient")
async def test_the_end_counts_ten_records_that_the_leader_acknowledged_just_now(cluster: StorageCluster) -> None:
    topic = await cluster.topic("ten")
    await store(cluster, topic, 10)
    assert await cluster.list_offset(topic, LATEST) == ListedOffset(0, 10, -1, 0)


@pytest.mark.usefixtures("rounds_an_hour_apart", "patient")
@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, START + 9])
async def test_a_lookup_finds_a_record_that_the_leader_acknowledged_just_now(cluster: StorageCluster, timestamp: int) -> None:
    topic = await cluster.topic("found")
    await store(cluster, topic, 10)
    assert await cluster.list_offset(topic, timestamp) == ListedOffset(0, 9, START + 9, 0)


@pytest.mark.usefixtures("rounds_an_hour_apart", "patient")
@pytest.mark.parametrize("offset", [-1, 10])
async def test_what_the_leader_acknowledged_just_now_can_be_deleted(cluster: StorageCluster, offset: int) -> None:
    topic = await cluster.topic("deleted")
    await store(cluster, topic, 10)
    assert await cluster.delete_records(topic, offset) == DeletedRecords(0, 10)


@pytest.mark.usefixtures("rounds_an_hour_apart", "patient")
@pytest.mark.parametrize("durability", ["synced", "replicated"])
async def test_the_end_waits_for_the_followers_too(three: Nodes, durability: str) -> None:
    topic = await three.topic("three", leader=1, durability=durability)
    await store(three[1], topic, 10)
    assert (await three[1].list_offset(topic, LATEST)).offset == 10


@pytest.mark.usefixtures("patient")
async def test_the_answer_waits_for_the_disk_and_the_start_of_the_log_does_not(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("held")
    await cluster.append(topic, batch(b"a"))
    disk.hold()
    await cluster.append(topic, batch(b"b"), acks=1)
    latest = cluster.listing(topic, LATEST)
    assert (await cluster.list_offset(topic, EARLIEST)).offset == 0
    assert not latest.done()
    disk.release()
    assert (await cluster.list_offset(topic, LATEST)).offset == 2
    await until(latest.done)


async def test_a_disk_that_hangs_holds_up_the_answer_for_a_bounded_time(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("hangs")
    await cluster.append(topic, batch(b"a"))
    disk.hold()
    await cluster.append(topic, batch(b"b"), acks=1)
    assert (await cluster.list_offset(topic, LATEST)).offset == 1
    disk.release()


@pytest.mark.usefixtures("patient")
async def test_nobody_waits_for_what_is_not_acknowledged(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("unacknowledged")
    await cluster.append(topic, batch(b"a"))
    disk.hold()
    pending = cluster.send([(topic, 0, batch(b"b"))])
    await until(lambda: partition_of(cluster, topic).log_end_offset == 2)
    assert (await cluster.list_offset(topic, LATEST)).offset == 1
    assert not pending.done()
    disk.release()
    await pending


@pytest.mark.usefixtures("patient")
async def test_a_question_ends_with_the_leadership_and_with_its_caller(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic, other = await cluster.topic("lost"), await cluster.topic("kept")
    disk.hold()
    for each in (topic, other):
        await cluster.append(each, batch(b"a"), acks=1)
    latest, abandoned = cluster.listing(topic, LATEST), cluster.listing(other, LATEST)
    assert (await cluster.list_offset(topic, EARLIEST)).offset == 0
    await cluster.state(topic, epoch=1, leader=2)
    assert (await latest).body
    abandoned.cancel()
    disk.release()
    assert (await cluster.list_offset(other, LATEST)).offset == 1


class CountedKey(tuple[bytes, int]):
    """A key that counts its comparisons with others. A dict compares no key with itself."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return super().__eq__(other)

    __hash__ = tuple.__hash__


class Hiding(SimpleNamespace):
    """Compared by identity, as a partition is."""

    __eq__, __hash__ = object.__eq__, object.__hash__


def hiding(key: CountedKey) -> Any:
    """A partition of which the leader has acknowledged one record, and committed none."""
    replica = SimpleNamespace(high_watermark=0, leading=True, in_sync=1, min_in_sync=1)
    sync = SimpleNamespace(stalled=False, mark_urgent=lambda: None, start_round=lambda: None)
    state = {"acknowledged_end": 1, "log_end_offset": 1, "high_watermark": 0, "offline": False, "is_behind": False}
    return Hiding(key=key, replica=replica, sync=sync, **state)


@pytest.mark.usefixtures("patient")
async def test_a_question_for_many_partitions_is_not_searched_at_each_commit() -> None:
    by_key = {key: hiding(key) for key in [CountedKey((b"many", number)) for number in range(500)]}
    table: Any = SimpleNamespace(by_key=by_key)
    ends = AcknowledgedEnds(table)
    question = asyncio.create_task(ends.shown([*by_key, *by_key]))
    await asyncio.sleep(0)
    CountedKey.compared = 0
    for key, partition in by_key.items():
        assert not question.done()
        partition.replica.high_watermark = partition.high_watermark = 1
        ends.wake(key)
        await asyncio.sleep(0)
    await question
    assert CountedKey.compared == 0
