"""Offsets wait until their transaction's coordinator has said that they belong to it, and shards move meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.coordinator.shard_hashing import shard_of
from libs.rpc.client import Response, RpcClient
from libs.rpc.contracts.coordinators import ASK_GROUPS, Ask
from libs.rpc.contracts.storage import AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, Marker, WriteMarkers
from libs.rpc.schema import pack, unpack
from libs.wire.api_keys import ApiKey
from libs.wire.messages import txn_offset_commit
from libs.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from libs.wire.primitives import Writer
from services.group_coordinator.coordinator import group_machine
from tests.group_coordinator.processes import TOPIC, Coordinator
from tests.storage.cluster import WAIT_S, StorageCluster
from tests.storage.fake_transaction_coordinator import FakeTransactionCoordinator
from tests.support.polling import until

SHARDS = 2
GROUP = "g"
SHARD = shard_of(GROUP, SHARDS)
PRODUCER = 7, 0
Begin = Callable[..., Awaitable[Coordinator]]


@pytest.fixture
async def transactions(node: StorageCluster, short_dir: Path) -> AsyncIterator[FakeTransactionCoordinator]:
    coordinator = FakeTransactionCoordinator(node)
    yield await coordinator.own(short_dir)
    await coordinator.close()


def commit_in_transaction(client: RpcClient) -> "asyncio.Future[Response]":
    topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5, -1, "")])]
    writer = Writer()
    txn_offset_commit.write_request(writer, TxnOffsetCommitRequest("x", GROUP, *PRODUCER, topics=topics), 3)
    body = Ask(SHARD, ApiKey.TXN_OFFSET_COMMIT, 3, "a client", "/127.0.0.1")
    return client.call(ASK_GROUPS, body, [writer.buffer], timeout_s=WAIT_S)


async def end_transaction(client: RpcClient, topic: bytes, owner_epoch: int) -> int:
    """`transaction.version` 0: the marker has the producer's epoch, and so has its next transaction."""
    marker = Marker(topic, SHARD, owner_epoch, *PRODUCER, True, False, 0, 1)
    response = await client.call(WRITE_GROUP_MARKERS, pack(WriteMarkers(1, 5000, (marker,))), timeout_s=WAIT_S)
    (answer,) = unpack(AppendReply, response.body).partitions
    return answer.error


async def test_an_answer_from_before_the_shard_was_elsewhere_begins_no_transaction(
    node: StorageCluster, begin: Begin, transactions: FakeTransactionCoordinator
) -> None:
    """The marker of the transaction that it is about came to the owner in between."""
    await node.topic("t")
    topic = await node.topic(TOPIC, partitions=SHARDS, cleanup_policy="compact")
    first, second = await begin(1, group_machine), await begin(2, group_machine)
    await node.give(topic, SHARD, first.owner, 1)
    await first.serves(SHARD)
    await until(lambda: "t" in first.running.topics.by_name)
    transactions.held.clear()
    commit = asyncio.ensure_future(commit_in_transaction(first.gateway()))
    await until(lambda: bool(transactions.requests))
    await node.give(topic, SHARD, second.owner, 2)
    await second.serves(SHARD)
    assert await end_transaction(second.gateway(), topic, 2) == 0
    await node.give(topic, SHARD, first.owner, 3)
    await until(lambda: SHARD in first.running.shards.owned and first.running.shards.owned[SHARD].owner_epoch == 3)
    await first.serves(SHARD)
    transactions.held.set()
    await commit
    assert first.running.open_epoch(SHARD, PRODUCER[0]) is None, "nobody ends it: its coordinator has written all markers"
