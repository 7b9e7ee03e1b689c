"""What holds back the last stable offset of a partition, as its leader tells operators."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from libs.rpc.contracts.storage import APPEND, Append, AppendPartition
from libs.wire.record_batches.records import Record, build_batch
from services.storage.partition import open_transactions
from services.storage.partition.late_transactions import LateTransactions
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch
from tests.storage.fake_transaction_coordinator import FakeTransactionCoordinator
from tests.storage.set_clock import SetClock

TIMEOUT_MS_MAX = 900_000
"""Kafka's default of transaction.max.timeout.ms."""


@pytest.fixture
async def coordinator(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[FakeTransactionCoordinator]:
    played = await FakeTransactionCoordinator(cluster).own(short_dir)
    yield played
    await played.close()


async def begin(cluster: StorageCluster, topic: bytes, producer_id: int, timestamp: int) -> int:
    """The offset of a transaction's first batch."""
    assert cluster.client is not None
    record = Record(None, b"x", timestamp)
    sent = bytes(build_batch([record], producer_id=producer_id, producer_epoch=2, base_sequence=0, transactional=True))
    request = Append(-1, 5000, (AppendPartition(topic, 0, -1, len(sent)),), "t", -1, 9)
    (answer,) = appended(await cluster.client.call(APPEND, request, [sent], timeout_s=WAIT_S))
    assert not answer.error
    return answer.base_offset


async def test_a_partition_shows_the_transactions_that_began_first(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("held-back")
    await cluster.append(topic, batch(b"of nobody"))
    for producer_id in (7, 8, 9):
        await begin(cluster, topic, producer_id, 1_700_000_000_000 + producer_id)
    monkeypatch.setattr(open_transactions, "SHOWN_MAX", 2)
    assert cluster.node is not None
    shown: Any = await cluster.node.partitions.look_up("held-back-0")
    assert (shown["last_stable_offset"], shown["high_watermark"]) == (1, 4)
    assert shown["open_transactions"] == [
        {
            "producer_id": producer_id,
            "producer_epoch": 2,
            "first_offset": first_offset,
            "last_timestamp_ms": 1_700_000_000_000 + producer_id,
            "coordinator_epoch": -1,
        }
        for first_offset, producer_id in ((1, 7), (2, 8))
    ]


async def test_partitions_with_late_transactions_are_counted(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """As Kafka counts them: five minutes after the longest timeout that a producer may have."""
    clock = SetClock()
    begun_ms = clock.wall_ms()
    topic, other = await cluster.topic("late"), await cluster.topic("without")
    await begin(cluster, topic, 7, begun_ms)
    await begin(cluster, topic, 8, begun_ms)
    await cluster.append(other, batch(b"of nobody"))
    assert cluster.node is not None
    meter = LateTransactions(cluster.node.partitions, clock)

    def count() -> float:
        (family,) = meter.collect()
        return float(family.samples[0].value)

    clock.now_ms += TIMEOUT_MS_MAX + open_transactions.LATE_AFTER_MS
    assert count() == 0
    clock.now_ms += 1
    assert count() == 1


async def test_a_transaction_without_timestamps_is_not_late(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator
) -> None:
    """As in Kafka: its last batch does not say how old it is."""
    topic = await cluster.topic("timeless")
    await begin(cluster, topic, 7, -1)
    assert cluster.node is not None
    (family,) = LateTransactions(cluster.node.partitions, SetClock()).collect()
    assert family.samples[0].value == 0
