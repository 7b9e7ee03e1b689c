"""A leader that was replaced and has not heard so lacks what its successor took. It asks its followers before it names the end of
its log, or says that a record does not exist."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.rpc.contracts.storage import ListedOffset
from libs.wire.errors import ErrorCode
from services.storage.partition import leader_checks
from services.storage.replication.leader import leadership_confirmations
from tests.storage.cluster import StorageCluster, batch, listed
from tests.storage.fake_follower import FakeFollower, at, replicated_topic
from tests.storage.held_reads import HeldReads
from tests.storage.three_nodes import Nodes, nodes

NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
START = 1_700_000_000_000
FOR_EVER_S = 3600.0


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


@dataclass
class Moved:
    """A topic with one record, led by node 1."""

    three: Nodes
    topic: bytes

    async def move(self) -> None:
        """Node 1 hears of nothing any more. Node 2 leads, and takes a record."""
        node = self.three[1].node
        assert node is not None
        await node.image_follower.close()
        await self.three.lead(self.topic, 2, isr=(2, 3))
        assert (await self.three[2].append(self.topic, batch(b"b", timestamp=START + 10))).base_offset == 1


@pytest.fixture
async def moved(three: Nodes) -> Moved:
    topic = await three.topic("t", leader=1)
    assert (await three[1].append(topic, batch(b"a", timestamp=START))).base_offset == 0
    return Moved(three, topic)


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, START + 10], ids=["the end", "the greatest", "not found"])
async def test_one_that_was_replaced_unawares_lists_no_offset_that_its_successor_would_list_otherwise(
    moved: Moved, timestamp: int
) -> None:
    before = await moved.three[1].list_offset(moved.topic, timestamp)
    assert not before.error
    await moved.move()
    assert (await moved.three[1].list_offset(moved.topic, timestamp)).error == NOT_LEADER_OR_FOLLOWER
    after = await moved.three[2].list_offset(moved.topic, timestamp)
    assert not after.error
    assert after.offset > before.offset


async def test_an_answer_that_every_successor_would_give_waits_for_nobody(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    await moved.move()
    assert await moved.three[1].list_offset(moved.topic, START) == ListedOffset(0, 0, START, 0)
    assert (await moved.three[1].list_offset(moved.topic, EARLIEST)).offset == 0


async def test_one_that_was_replaced_unawares_deletes_no_records_and_refuses_no_offset(moved: Moved) -> None:
    await moved.move()
    for offset in (1, 2, -1):  # its successor has committed 2 records
        assert (await moved.three[1].delete_records(moved.topic, offset)).error == NOT_LEADER_OR_FOLLOWER
    assert moved.three.home(1, moved.topic).log_start_offset == 0
    deleted = await moved.three[2].delete_records(moved.topic, 2, timeout_ms=30_000)
    assert (deleted.error, deleted.low_watermark) == (0, 2)


async def test_an_outage_of_the_store_stops_neither_offsets_nor_deletions(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """*Rule: an outage of the store is not a death.*"""
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    reads = HeldReads(moved.three.store, monkeypatch)
    moved.three.store.unavailable = True
    leader = moved.three[1]
    assert await leader.list_offset(moved.topic, LATEST) == ListedOffset(0, 1, -1, 0)
    assert await leader.list_offset(moved.topic, MAX_TIMESTAMP) == ListedOffset(0, 0, START, 0)
    assert (await leader.list_offset(moved.topic, START + 10)).offset == -1
    assert (await leader.delete_records(moved.topic, 1, timeout_ms=30_000)).error == 0
    assert reads.served == 0


# -- what counts as an answer of a follower ---------------------------------------------------------------------------------


@pytest.fixture
async def follower(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    one = await FakeFollower(cluster, 2).register()
    yield one
    await one.close()


@pytest.fixture
async def topic(cluster: StorageCluster, follower: FakeFollower) -> bytes:
    """In sync: the leader and the follower, whose session has begun."""
    topic = await replicated_topic(cluster, "t", (1, 2))
    await follower.pull(at(topic, 0))
    return topic


async def test_a_pull_that_was_sent_before_the_question_is_no_answer(
    cluster: StorageCluster, follower: FakeFollower, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    listing = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)  # so it has arrived
    await follower.pull()  # it names no round, as if it had been on its way
    assert follower.round == 1
    assert not listing.done()
    await follower.pull()
    assert listed(await listing) == ListedOffset(0, 0, -1, 0)


async def test_every_member_of_the_isr_has_to_answer(
    cluster: StorageCluster, follower: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    other = await FakeFollower(cluster, 3).register()
    topic = await replicated_topic(cluster, "three", (1, 2, 3))
    for one in (follower, other):
        await one.pull(at(topic, 0))
    listing = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)  # so it has arrived
    for _ in range(2):
        await follower.pull()
    await other.pull()
    assert not listing.done()
    await other.pull()
    assert not listed(await listing).error
    await other.close()


async def test_a_parked_pull_is_answered_so_that_nobody_waits_for_its_end(
    cluster: StorageCluster, follower: FakeFollower, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    listing = cluster.listing(topic, LATEST)
    assert await follower.pull(max_wait_ms=3_600_000) == []
    assert not listing.done()
    second = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)
    assert await follower.pull(max_wait_ms=3_600_000) == []  # it answers the first question, and is answered for the second
    assert listed(await listing).error == 0
    await follower.pull()
    assert listed(await second).error == 0


def drop(topic: bytes) -> dict[str, object]:
    return {"dropped": [(topic, 0)]}


def later_epoch(topic: bytes) -> dict[str, object]:
    return {"named": at(topic, 0, epoch=1)}


@pytest.mark.parametrize("change", [drop, later_epoch])
async def test_a_follower_that_no_longer_pulls_in_this_epoch_confirms_nothing(
    cluster: StorageCluster,
    follower: FakeFollower,
    topic: bytes,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], dict[str, object]],
) -> None:
    monkeypatch.setattr(leader_checks, "STORE_S_MAX", 0.05)
    cluster.store.unavailable = True
    listing = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)
    await follower.pull()
    changes = change(topic)
    named = changes.pop("named", None)
    await follower.pull(*([named] if named is not None else []), **changes)  # type: ignore[list-item, arg-type]
    await follower.pull()
    assert listed(await listing).error == NOT_LEADER_OR_FOLLOWER


async def test_the_store_is_asked_while_a_follower_is_silent(
    cluster: StorageCluster, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = HeldReads(cluster.store, monkeypatch)
    assert await cluster.list_offset(topic, LATEST) == ListedOffset(0, 0, -1, 0)
    assert reads.served == 1
    monkeypatch.setattr(leader_checks, "STORE_S_MAX", 0.05)
    cluster.store.unavailable = True
    assert (await cluster.list_offset(topic, LATEST)).error == NOT_LEADER_OR_FOLLOWER


async def test_a_question_ends_with_the_leadership_in_which_it_was_asked(
    cluster: StorageCluster, follower: FakeFollower, topic: bytes
) -> None:
    """Somebody else may have led between two leaderships of this node."""
    listing = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)
    await cluster.state(topic, epoch=2)
    await cluster.leads(topic, 0, 2)
    await follower.pull(at(topic, 0, epoch=2))
    await follower.pull()
    assert listed(await listing).error == NOT_LEADER_OR_FOLLOWER


async def test_a_node_that_stops_leaves_no_question_open(
    cluster: StorageCluster, topic: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_confirmations, "FOLLOWERS_S_MAX", FOR_EVER_S)
    listing = cluster.listing(topic, LATEST)
    await cluster.list_offset(topic, EARLIEST)
    node, cluster.node = cluster.node, None
    assert node is not None
    await node.stop()
    assert listed(await listing).error == NOT_LEADER_OR_FOLLOWER
