"""A coordinator process with offsets of transactions, over a real storage node: whom it asks, and which markers it takes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask
from libs.rpc.contracts.storage import AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, AddPartitions, Marker, WriteMarkers
from libs.rpc.messages.schema import pack, unpack
from libs.transactions import question
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from libs.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    read_response,
    write_request,
)
from libs.wire.primitives import Reader, Writer
from services.group_coordinator.coordinator import group_machine
from tests.group_coordinator.processes import TOPIC, Coordinator, ask
from tests.storage.cluster import WAIT_S, StorageCluster
from tests.storage.fake_transaction_coordinator import FakeTransactionCoordinator
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

GROUP, TRANSACTIONAL_ID, PRODUCER_ID = "g", "tx", 7
VERIFIED, ADDED = 3, 5
"""Versions of TxnOffsetCommit: before and since KIP-890."""
INVALID_TXN_STATE, ABORTABLE = int(ErrorCode.INVALID_TXN_STATE), int(ErrorCode.TRANSACTION_ABORTABLE)
LATE = int(ErrorCode.INVALID_REQUEST)


@pytest.fixture
async def transactions(node: StorageCluster, short_dir: Path) -> AsyncIterator[FakeTransactionCoordinator]:
    coordinator = await FakeTransactionCoordinator(node).own(short_dir)
    yield coordinator
    await coordinator.close()


class Scene:
    """One shard, and a topic `t` of one partition whose offsets are committed."""

    def __init__(self, node: StorageCluster, topic_id: bytes, coordinator: Coordinator) -> None:
        self.node, self.topic_id, self.coordinator = node, topic_id, coordinator
        self.gateway: RpcClient = coordinator.gateway()
        self.owner_epoch = 1
        self.numbers = iter(range(1, 100))

    async def hand_over(self, coordinator: Coordinator) -> None:
        self.owner_epoch += 1
        self.coordinator = coordinator
        await self.node.give(self.topic_id, 0, coordinator.owner, self.owner_epoch)
        owned = coordinator.running.shards.owned
        await until(lambda: 0 in owned and owned[0].owner_epoch == self.owner_epoch)
        await coordinator.serves(0)
        self.gateway = coordinator.gateway()

    async def commit(self, offset: int, *, version: int = VERIFIED, epoch: int = 0) -> int:
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, offset)])]
        writer = Writer()
        write_request(writer, TxnOffsetCommitRequest(TRANSACTIONAL_ID, GROUP, PRODUCER_ID, epoch, topics=topics), version)
        request = Ask(0, ApiKey.TXN_OFFSET_COMMIT, version, "a client", "/127.0.0.1")
        response = await self.gateway.call(ASK_GROUPS, request, [writer.buffer], timeout_s=WAIT_S)
        error = response.body[0]
        if error:
            assert isinstance(error, int)
            return error
        (topic,) = read_response(Reader(memoryview(response.payload)), version).topics
        return topic.partitions[0].error_code

    async def end(
        self, *, commits: bool = True, epoch: int = 0, raises: bool = False, number: int | None = None, owner_epoch: int = 0
    ) -> int:
        """The answer to a marker of shard 3 of `__transaction_state`."""
        marker = Marker(
            self.topic_id, 0, owner_epoch or self.owner_epoch, PRODUCER_ID, epoch, commits, raises, shard=3, coordinator_epoch=1
        )
        request = WriteMarkers(number if number is not None else next(self.numbers), 1000, (marker,))
        response = await self.gateway.call(WRITE_GROUP_MARKERS, pack(request), timeout_s=WAIT_S)
        (answer,) = unpack(AppendReply, response.body).partitions
        return answer.error

    async def offset(self) -> int:
        """The committed offset; a negative one is an error, or that there is none."""
        request = OffsetFetchRequest([OffsetFetchRequestGroup(GROUP, topics=None)], require_stable=True)
        (group,) = (await ask(self.gateway, 0, request)).groups
        found = [-each.error_code or each.committed_offset for topic in group.topics for each in topic.partitions]
        return found[0] if found else -1


@pytest.fixture
async def scene(
    node: StorageCluster, begin: Callable[..., Awaitable[Coordinator]], transactions: FakeTransactionCoordinator
) -> Scene:
    topic_id = await node.topic(TOPIC, partitions=1, cleanup_policy="compact")
    await node.topic("t")
    coordinator = await begin(1, group_machine)
    await node.give(topic_id, 0, coordinator.owner, 1)
    await coordinator.serves(0)
    await until(lambda: "t" in coordinator.running.topics.by_name)
    return Scene(node, topic_id, coordinator)


@pytest.mark.parametrize("version", [VERIFIED, ADDED])
async def test_the_transactions_coordinator_is_asked_before_its_first_offsets(
    scene: Scene, transactions: FakeTransactionCoordinator, version: int
) -> None:
    assert await scene.commit(5, version=version) == 0
    asked = AddPartitions(TRANSACTIONAL_ID, PRODUCER_ID, 0, version == VERIFIED, ((GROUP_TOPIC, 0),))
    assert transactions.requests == [asked]
    assert await scene.commit(6, version=version) == 0
    assert len(transactions.requests) == 1, "the transaction has begun here"
    assert await scene.offset() == -1
    assert await scene.end() == 0
    assert await scene.offset() == 6
    assert await scene.commit(7, version=version) == 0
    assert len(transactions.requests) == 2, "another transaction"


async def test_operators_see_what_is_pending(scene: Scene) -> None:
    await scene.commit(5)
    seen = await scene.coordinator.running.group_views.group(GROUP)
    assert isinstance(seen, dict)
    assert seen["pending_offsets"] == [{"topic": "t", "partition": 0, "producer_ids": [PRODUCER_ID]}]
    assert (seen["kind"], seen["offsets"]) == ("simple", [])


@pytest.mark.parametrize(("version", "expected"), [(VERIFIED, INVALID_TXN_STATE), (4, ABORTABLE), (ADDED, ABORTABLE)])
async def test_offsets_of_no_transaction_are_refused(
    scene: Scene, transactions: FakeTransactionCoordinator, version: int, expected: int
) -> None:
    transactions.errors = [ABORTABLE]
    assert await scene.commit(5, version=version) == expected
    transactions.errors = [int(ErrorCode.PRODUCER_FENCED)]
    assert await scene.commit(5, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await scene.end() == 0
    assert await scene.offset() == -1


async def test_a_coordinator_that_cannot_answer_is_asked_again_for_a_while(
    scene: Scene, transactions: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions.errors = [int(ErrorCode.NOT_COORDINATOR), 0]
    assert await scene.commit(5) == 0
    await scene.end()
    monkeypatch.setattr(question, "UNAVAILABLE_S_MAX", 0.1)
    transactions.errors = [int(ErrorCode.NOT_COORDINATOR)]
    assert await scene.commit(6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await scene.offset() == 5


async def test_a_marker_ends_the_wait_for_an_answer_about_its_transaction(
    scene: Scene, transactions: FakeTransactionCoordinator
) -> None:
    """The offsets come late: stored now, they would begin a transaction that nobody ends."""
    transactions.held.clear()
    late = asyncio.ensure_future(scene.commit(5))
    await until(lambda: len(transactions.requests) == 1)
    assert await scene.end() == 0
    assert await late == INVALID_TXN_STATE
    transactions.held.set()
    assert await scene.offset() == -1
    assert await scene.commit(6) == 0


async def test_a_marker_that_raises_the_epoch_spares_the_next_transaction(
    scene: Scene, transactions: FakeTransactionCoordinator
) -> None:
    """`transaction.version` 2: the next transaction has the marker's epoch."""
    transactions.held.clear()
    next_one = asyncio.ensure_future(scene.commit(5, version=ADDED, epoch=1))
    await until(lambda: len(transactions.requests) == 1)
    assert await scene.end(epoch=1, raises=True) == 0
    transactions.held.set()
    assert await next_one == 0


async def test_a_late_marker_does_not_end_the_next_transaction(scene: Scene) -> None:
    """Before `transaction.version` 2 it has the same epoch."""
    await scene.commit(5)
    assert await scene.end(number=7) == 0
    await scene.commit(6)
    assert await scene.end(number=6) == LATE
    assert await scene.offset() == -int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await scene.end(number=8, commits=False) == 0
    assert await scene.offset() == 5


async def test_another_owner_goes_on_with_open_transactions(
    scene: Scene, begin: Callable[..., Awaitable[Coordinator]], transactions: FakeTransactionCoordinator
) -> None:
    await scene.commit(5)
    await scene.hand_over(await begin(2, group_machine))
    assert await scene.end(owner_epoch=1) == LATE, "it was sent to the former owner"
    assert await scene.commit(6) == 0
    assert len(transactions.requests) == 1, "the log says that the transaction has begun"
    assert await scene.end() == 0
    await scene.hand_over(await begin(3, group_machine))
    assert await scene.offset() == 6


async def test_an_answer_from_before_the_shard_was_elsewhere_begins_no_transaction(
    scene: Scene, begin: Callable[..., Awaitable[Coordinator]], transactions: FakeTransactionCoordinator
) -> None:
    """The marker of the transaction that it is about came to the owner in between."""
    first = scene.coordinator
    transactions.held.clear()
    late = asyncio.ensure_future(scene.commit(5))
    await until(lambda: bool(transactions.requests))
    await scene.hand_over(await begin(2, group_machine))
    assert await scene.end() == 0
    await scene.hand_over(first)
    transactions.held.set()
    await late
    assert first.running.open_epoch(0, PRODUCER_ID) is None, "nobody ends it: its coordinator has written all markers"


async def test_the_leader_refuses_a_producer_with_a_former_epoch(scene: Scene) -> None:
    await scene.commit(5, version=ADDED)
    assert await scene.end(epoch=1, raises=True) == 0
    assert await scene.commit(6, version=ADDED, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await scene.end(epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await scene.offset() == 5
    assert await scene.commit(7, version=ADDED, epoch=1) == 0, "the shard goes on"


async def test_markers_for_shards_of_others_are_refused(scene: Scene, begin: Callable[..., Awaitable[Coordinator]]) -> None:
    other = await begin(2, group_machine)
    await until(lambda: other.running.shards.count == 1)
    scene.gateway = other.gateway()
    assert await scene.end() == ErrorCode.NOT_COORDINATOR
    scene.topic_id = b"#" * 16
    assert await scene.end() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_marker_that_is_sent_again_while_it_waits_is_appended_once(scene: Scene, disk: HeldDisk) -> None:
    """Otherwise markers that take longer than their coordinator waits would queue up behind their own copies."""
    await scene.commit(5)
    disk.hold()
    sent = [asyncio.ensure_future(scene.end()) for _ in range(3)]
    assert await scene.end(owner_epoch=9) == LATE, "requests of a connection are taken in order"
    disk.release()
    assert await asyncio.gather(*sent) == [0, 0, 0]
    assert scene.coordinator.running.shards.owned[0].shard.position == 2, "one batch of offsets, and one marker"
    assert await scene.offset() == 5


async def test_kafka_17507_a_marker_is_answered_once_its_offsets_are_there(scene: Scene, disk: HeldDisk) -> None:
    """The answer left before the offsets had taken effect. The next transaction began, and its pending offsets, which were not in
    the log yet, were taken for those of the last one."""
    await scene.commit(5)
    disk.hold()
    marker = asyncio.ensure_future(scene.end())
    following = asyncio.ensure_future(scene.commit(6))
    last = asyncio.ensure_future(scene.end(owner_epoch=9))
    assert await last == LATE, "requests of a connection are taken in order"
    assert not marker.done()
    disk.release()
    assert await marker == 0
    assert await following == 0
    assert await scene.offset() == -int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await scene.end(commits=False) == 0
    assert await scene.offset() == 5, "of the first transaction alone"
