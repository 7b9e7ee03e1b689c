"""Bugs of other systems' replication, one test each: here, or where the table says."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from services.storage.partition.partition import Partition
from tests.storage.cluster import StorageCluster, batch, fetched, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_state, replicated_topic, show
from tests.support.polling import until

ELSEWHERE = {
    "KIP-101": "storage/test_following.py::test_a_follower_cuts_what_its_leader_never_had_and_not_by_its_high_watermark",
    "KIP-279, KAFKA-6361": "storage/test_following_regressions.py::test_two_fast_failovers_are_walked_back_until_the_logs_agree",
    "KAFKA-7415": "storage/test_log_ends.py::test_a_log_end_names_an_epoch_without_records_too",
    "KAFKA-10706": "storage/test_following_regressions.py::test_an_epoch_in_which_nothing_was_written_contradicts_nobody",
    "KAFKA-7164": (
        "storage/test_following_regressions.py::test_a_follower_that_missed_an_epoch_cuts_though_its_leader_is_the_same"
    ),
    "KAFKA-14704": "storage/test_following_regressions.py::test_a_parting_is_heeded_before_a_high_watermark_that_came_with_it",
    "KAFKA-13207": "storage/test_following_regressions.py::test_a_late_answer_cuts_nothing_of_what_is_led_by_now",
    "KAFKA-9491": "storage/test_following_regressions.py::test_the_high_watermark_of_a_log_that_begins_anew_is_its_start",
    "KAFKA-13091, KAFKA-13254": (
        "storage/test_isr_changes.py::test_kafka_13091_a_shrunk_isr_advances_the_high_watermark_once_it_is_known_to_be"
    ),
    "KAFKA-15221": "storage/test_pulls.py::test_kafka_15221_what_a_process_asked_before_it_was_restarted_is_refused",
    "KIP-966": "controller/test_broker_changes.py::test_a_replica_that_may_lack_its_page_cache_does_not_lead_a_replicated_topic",
    "one node's page cache": "controller/test_broker_changes.py::test_one_nodes_lost_page_cache_is_not_the_clusters_loss",
    "KAFKA-3978": "storage/core/test_in_sync.py::test_kafka_3978_the_high_watermark_is_never_negative",
    "KAFKA-6975": "storage/test_following_regressions.py::test_a_new_follower_begins_in_the_middle_of_a_batch",
    "KAFKA-12153": "storage/test_following_regressions.py::test_transactions_that_were_cut_hold_up_no_reader",
    "KAFKA-6003": "storage/test_replication.py::test_an_idempotent_producer_is_recognised_by_the_next_leader",
}


@pytest.mark.parametrize("scenario", ELSEWHERE)
def test_every_scenario_has_its_test(scenario: str, root: Path) -> None:
    file, name = ELSEWHERE[scenario].split("::")
    assert re.search(rf"^(async )?def {name}\(", (root / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE), ELSEWHERE[
        scenario
    ]


@pytest.fixture
async def two(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


def last_offset(payload: bytes) -> int:
    found, position = -1, 0
    while position < len(payload):
        header = BatchHeader.at(payload[position:])
        found, position = header.last_offset, position + header.size
    return found


async def test_kafka_9807_a_reader_passes_the_high_watermark_at_no_roll(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "rolls", [1, 2], segment_bytes="1048576", durability="replicated")
    big = batch(b"x" * 400_000)
    for _ in range(7):  # two to a segment
        await cluster.append(topic, big, acks=1)
    assert len(partition_of(cluster, topic).log.segments) >= 3
    for committed in range(1, 8):
        await two.pull(at(topic, committed))
        assert partition_of(cluster, topic).high_watermark == committed
        offset, seen = 0, -1
        while True:
            reply = await cluster.fetching(topic, offset, inline=True, max_bytes=4 << 20)
            seen = max(seen, last_offset(bytes(reply.payload)))
            if not reply.payload:
                break
            offset = seen + 1
        assert seen == committed - 1


async def test_kafka_9196_a_high_watermark_that_rises_during_a_read_shows_no_more_than_the_answer_says(
    cluster: StorageCluster, two: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await replicated_topic(cluster, "rising", [1, 2], durability="replicated")
    for _ in range(9):
        await cluster.append(topic, batch(b"x"), acks=1)
    await two.pull(at(topic, 1))
    looks = iter(range(1, 9))
    monkeypatch.setattr(Partition, "high_watermark", property(lambda self: next(looks)))
    reply = await cluster.fetching(topic, 0, inline=True)
    assert last_offset(bytes(reply.payload)) < fetched(reply)[0].high_watermark


async def test_kafka_9835_a_reader_at_the_high_watermark_is_not_woken_by_what_is_not_committed(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "races", [1, 2], durability="replicated")
    waiting = asyncio.ensure_future(cluster.fetching(topic, 0, inline=True, max_wait_ms=8000))
    reading = cluster.fetching(topic, 0, inline=True)  # in the same turn as the append
    appending = cluster.append(topic, batch(b"x"), acks=1)
    assert (await appending).error == 0
    assert bytes((await reading).payload) == b""
    assert (await cluster.list_offset(topic, -1)).offset == 0
    assert not waiting.done()
    await two.pull(at(topic, 1))
    assert last_offset(bytes((await waiting).payload)) == 0


async def test_a_leader_whose_epoch_has_passed_admits_no_write_however_it_is_brought_back(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    """A failed epoch bump later admitted a write of the stale epoch: here a state of it comes again after a later one."""
    topic = await replicated_topic(cluster, "stale", [1, 2])
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=4, partition_epoch=4), leader=2, leader_incarnation=10)
    assert not partition_of(cluster, topic).leading
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=3, partition_epoch=3))
    refused = await cluster.append(topic, batch(b"x"), epoch=3, timeout_ms=50)
    assert refused.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition_of(cluster, topic).log_end_offset == 0
    ((answer, _),) = await two.pull(at(topic, 0, epoch=3))
    assert answer.error
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=5, partition_epoch=5))
    await until(lambda: partition_of(cluster, topic).leading)
    assert (await cluster.append(topic, batch(b"x"), acks=1, epoch=5)).error == 0
