"""A leader's answers to its followers, and its use of their reports."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.rpc.messages.errors import RpcError
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable
from services.storage.replication.leader import pull_answers
from tests.storage.cluster import StorageCluster, appended, batch, partition_of
from tests.storage.fake_follower import FakeFollower, at, image, replicated_state, replicated_topic, show
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


@pytest.fixture
async def two(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


@pytest.fixture
async def three(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 3).register()
    yield follower
    await follower.close()


async def test_a_follower_reads_to_the_end_of_the_log_and_not_to_the_high_watermark(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "read")
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await cluster.append(topic, batch(b"c"), acks=1)
    ((pulled, payload),) = await two.pull(at(topic, 0))
    assert (pulled.error, pulled.leader_epoch, pulled.high_watermark, pulled.log_end_offset) == (0, 0, 0, 3)
    assert BatchHeader.at(payload).base_offset == 0
    assert pulled.inline_length == len(payload) == partition_of(cluster, topic).log.size


async def test_a_followers_count_of_holding_up_begins_at_zero(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "counted")
    await cluster.append(topic, batch(b"a"), acks=1)
    await two.pull(at(topic, 0))
    assert cluster.node.meters.held_up_by == {2: 0}


async def test_acks_all_is_answered_when_everyone_in_sync_has_it_durably(
    cluster: StorageCluster, two: FakeFollower, three: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "all")
    await two.pull(at(topic, 0))
    await three.pull(at(topic, 0))
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    await until(lambda: partition_of(cluster, topic).replica.durable == 1)
    await two.pull(at(topic, 1))
    await three.pull(at(topic, 1, durable=0))
    assert partition_of(cluster, topic).high_watermark == 0
    assert not waiting.done()
    three.progress(topic, 1)  # it waits for no pull
    assert appended(await waiting)[0].base_offset == 0
    ((pulled, _),) = await two.pull()
    assert pulled.high_watermark == 1


async def test_on_a_replicated_topic_the_log_ends_decide(
    cluster: StorageCluster, two: FakeFollower, three: FakeFollower, disk: HeldDisk
) -> None:
    topic = await replicated_topic(cluster, "ends", durability="replicated")
    waiting = cluster.send([(topic, 0, batch(b"a"))])
    await until(lambda: partition_of(cluster, topic).log_end_offset == 1)
    await two.pull(at(topic, 1, durable=0))
    await three.pull(at(topic, 1, durable=0))
    assert appended(await waiting)[0].error == 0


async def test_a_parked_pull_is_answered_as_soon_as_bytes_arrive(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "parked")
    assert len(await two.pull(at(topic, 0))) == 1  # the high watermark
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    await cluster.append(topic, batch(b"a"), acks=1)
    ((_, payload),) = await waiting
    assert payload
    assert await two.pull() == []  # nothing more before it is named again
    assert await two.pull(at(topic, 1)) == []


async def test_a_pull_with_nothing_to_tell_waits_no_longer_than_it_asked_to(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "idle")
    await two.pull(at(topic, 0))
    assert await two.pull(max_wait_ms=20) == []


async def test_logs_that_diverge_are_answered_with_the_place(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "parting", durability="replicated")
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await show(cluster, topic, replicated_state(cluster, [1, 2, 3], epoch=5, partition_epoch=1))
    await cluster.append(topic, batch(b"c", b"d"), acks=1)
    ((pulled, payload),) = await two.pull(at(topic, 3, epoch=5, last_epoch=0))
    assert (pulled.error, pulled.diverging_epoch, pulled.diverging_end_offset, payload) == (0, 0, 2, b"")
    ((pulled, payload),) = await two.pull(at(topic, 2, epoch=5, last_epoch=0))
    assert (pulled.error, pulled.diverging_epoch) == (0, -1)
    assert BatchHeader.at(payload).base_offset == 2


async def test_a_log_that_parts_from_the_leaders_counts_for_nothing(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "parted", [1, 2], durability="replicated")
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=5, partition_epoch=1))
    await cluster.append(topic, batch(b"c", b"d"), acks=1)
    two.progress(topic, 4, epoch=5)  # of what it had from another leader
    await two.pull(at(topic, 4, epoch=5, last_epoch=0))
    two.progress(topic, 4, epoch=5)
    await two.pull()
    assert partition_of(cluster, topic).high_watermark == 0
    await two.pull(at(topic, 2, epoch=5, last_epoch=0))
    assert partition_of(cluster, topic).high_watermark == 2


async def test_positions_outside_the_log_are_answered_with_its_bounds(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "bounds")
    await cluster.append(topic, batch(b"a"), acks=1)
    ((pulled, _),) = await two.pull(at(topic, 9))
    assert (pulled.error, pulled.log_start_offset, pulled.log_end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0, 1)
    assert partition_of(cluster, topic).high_watermark == 0


async def test_other_epochs_than_the_leaders_are_refused(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "epochs")
    await show(cluster, topic, replicated_state(cluster, [1, 2, 3], epoch=4, partition_epoch=1))
    ((behind, _),) = await two.pull(at(topic, 0, epoch=3), max_wait_ms=8000)
    assert behind.error == ErrorCode.FENCED_LEADER_EPOCH
    ((ahead, _),) = await two.pull(at(topic, 0, epoch=5), max_wait_ms=20)  # until then it might still be elected
    assert ahead.error == ErrorCode.UNKNOWN_LEADER_EPOCH
    ((unknown, _),) = await two.pull(at(b"?" * 16, 0))
    assert unknown.error == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_follower_that_hears_of_an_election_first_is_kept_waiting(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "election", [1, 2], durability="replicated")
    await cluster.append(topic, batch(b"a"), acks=1)
    waiting = asyncio.ensure_future(two.pull(at(topic, 1, epoch=7, last_epoch=0), max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=7, partition_epoch=1))
    ((pulled, _),) = await waiting
    assert (pulled.error, pulled.leader_epoch, pulled.high_watermark) == (0, 7, 1)  # and it was counted


async def test_records_that_became_durable_before_their_leader_led_count_once_it_does(
    cluster: StorageCluster, two: FakeFollower
) -> None:
    topic = await replicated_topic(cluster, "durable", [1, 2])
    await cluster.append(topic, batch(b"a", b"b"), acks=1)
    waiting = asyncio.ensure_future(two.pull(at(topic, 2, durable=0, epoch=7, last_epoch=0), max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    two.progress(topic, 99, epoch=7)
    await cluster.append(topic, batch(b"c"), acks=1)
    await show(cluster, topic, replicated_state(cluster, [1, 2], epoch=7, partition_epoch=1))
    ((pulled, _),) = await waiting
    assert pulled.error == 0
    await until(lambda: partition_of(cluster, topic).high_watermark == 2)


async def test_a_deposed_leader_says_so_to_waiting_pulls(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "deposed")
    await two.pull(at(topic, 0))
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    await show(cluster, topic, replicated_state(cluster, [1, 2, 3]), leader=3, leader_incarnation=10, leader_epoch=1)
    ((pulled, _),) = await waiting
    assert pulled.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_sessions_keep_in_step(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "steps")
    await two.pull(at(topic, 0))
    two.sequence += 1
    assert await refusal(two) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    two.session, two.sequence = two.session + 1, 4
    assert await refusal(two) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    two.session, two.sequence = two.session - 1, 0
    assert await refusal(two) == ErrorCode.INVALID_FETCH_SESSION_EPOCH  # numbers rise
    two.session += 1
    two.sequence = 0
    ((pulled, _),) = await two.pull(at(topic, 0))  # what an earlier session was told is told again
    assert pulled.high_watermark == 0


async def test_a_new_session_ends_the_pull_of_the_old_one(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "anew")
    await two.pull(at(topic, 0))
    waiting = asyncio.ensure_future(refusal(two, max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    two.begin()
    await two.pull(at(topic, 0))
    assert await waiting == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_kafka_15221_what_a_process_asked_before_it_was_restarted_is_refused(cluster: StorageCluster) -> None:
    topic = await replicated_topic(cluster, "restarted", [1, 2])
    before, after = FakeFollower(cluster, 2, 10), FakeFollower(cluster, 2, 11)
    await before.register()
    await before.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a"), acks=1)
    await after.announce()
    assert await refusal(before, at(topic, 1)) == ErrorCode.STALE_BROKER_EPOCH
    before.progress(topic, 1)
    await after.register()
    await after.pull(at(topic, 0))
    assert partition_of(cluster, topic).high_watermark == 0
    assert partition_of(cluster, topic).replica.isr.committed == {1: cluster.incarnation, 2: 10}
    await before.close()
    await after.close()


async def test_a_full_answer_leaves_the_rest_for_the_next_and_starves_nobody(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "fair", partitions=4)
    for index in range(4):
        await cluster.append(topic, batch(b"x" * 1000), index=index, acks=1)
    served: list[int] = []
    named = [at(topic, 0, index=index) for index in range(4)]
    answer = await two.pull(*named, max_bytes=1500)
    assert sum(len(payload) for _, payload in answer) > 1000  # at least one whole batch, and no more than is asked for
    for _ in range(8):
        with_bytes = [pulled.partition for pulled, payload in answer if payload]
        served += with_bytes
        answer = await two.pull(*[at(topic, 0, index=index) for index in with_bytes], max_bytes=1500)  # they ask for it again
    assert {served.count(index) for index in range(4)} >= {len(served) // 4}
    assert max(served.count(index) for index in range(4)) - min(served.count(index) for index in range(4)) <= 1


async def test_thousands_of_small_answers_do_not_take_all_descriptors(
    cluster: StorageCluster, two: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_answers, "FILES_MAX", 3)
    monkeypatch.setattr(pull_answers, "COPIED_BYTES_MAX", 0)
    topic = await replicated_topic(cluster, "small", partitions=7)
    for index in range(7):
        await cluster.append(topic, batch(b"x"), index=index, acks=1)
    answers = [await two.pull(*[at(topic, 0, index=index) for index in range(7)]), await two.pull(), await two.pull()]
    served = [[pulled.partition for pulled, payload in answer if payload] for answer in answers]
    assert served == [[0, 1, 2], [3, 4, 5], [6]]


async def test_small_pieces_are_copied_and_large_ones_sent_from_their_files(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "sizes", partitions=4)
    sizes = [10, 200_000, 20, 300_000]
    for index, size in enumerate(sizes):
        await cluster.append(topic, batch(b"%d" % index * size), index=index, acks=1)
    answer = await two.pull(*[at(topic, 0, index=index) for index in range(4)])
    assert [pulled.partition for pulled, _ in answer] == [0, 1, 2, 3]
    for pulled, payload in answer:
        assert b"%d" % pulled.partition * sizes[pulled.partition] in payload


async def test_partitions_where_nothing_happens_cost_nothing_when_another_is_pulled(
    cluster: StorageCluster, two: FakeFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await replicated_topic(cluster, "idle", partitions=50)
    await two.pull(*[at(topic, 0, index=index) for index in range(50)])
    assert cluster.node is not None
    looked_at: list[Key] = []
    serving = PartitionTable.serving
    monkeypatch.setattr(PartitionTable, "serving", lambda self, key: looked_at.append(key) or serving(self, key))
    assert await two.pull() == []
    assert looked_at == []
    await cluster.append(topic, batch(b"x"), index=7, acks=1)
    ((pulled, _),) = await two.pull()
    assert pulled.partition == 7
    assert set(looked_at) == {(topic, 7)}


async def test_a_batch_larger_than_what_was_asked_for_is_sent_all_the_same(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "large")
    await cluster.append(topic, batch(b"x" * 5000), acks=1)
    ((_, payload),) = await two.pull(at(topic, 0), max_bytes=10, partition_max_bytes=10)
    assert len(payload) > 5000


async def test_a_follower_on_the_same_kernel_gets_file_ranges(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "ranges")
    await cluster.append(topic, batch(b"a"), acks=1)
    ((pulled, payload),) = await two.pull(at(topic, 0), inline=False)
    assert payload == b""
    (piece,) = pulled.ranges
    assert (piece.position, piece.length) == (0, partition_of(cluster, topic).log.size)


async def test_a_dropped_partition_is_answered_no_more(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "dropped")
    await two.pull(at(topic, 0))
    await two.pull(dropped=[(topic, 0)])
    await cluster.append(topic, batch(b"a"), acks=1)
    assert await two.pull() == []


async def test_a_later_log_start_is_answered_without_batches(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "start", [1])
    await cluster.append(topic, batch(b"a", b"b"))
    await two.pull(at(topic, 2))
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    deletion = asyncio.create_task(cluster.delete_records(topic, 1))
    assert await waiting == []  # whether this node still leads: the follower may have been let in
    ((pulled, payload),) = await two.pull(max_wait_ms=8000)
    assert (pulled.error, pulled.log_start_offset, payload) == (0, 1, b"")
    assert not deletion.done()
    await two.pull(replace(at(topic, 2), log_start_offset=1))
    assert (await deletion).error == 0


async def test_a_high_watermark_alone_is_answered_too(cluster: StorageCluster, two: FakeFollower, three: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "alone", durability="replicated")
    await cluster.append(topic, batch(b"a"), acks=1)
    ((pulled, _),) = await two.pull(at(topic, 1))
    assert pulled.high_watermark == 0
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    await three.pull(at(topic, 1))
    ((pulled, payload),) = await waiting
    assert (pulled.high_watermark, payload) == (1, b"")


async def test_a_throttled_leader_bounds_only_followers_that_are_out_of_sync(
    cluster: StorageCluster, two: FakeFollower, three: FakeFollower
) -> None:
    rate = {"leader.replication.throttled.rate": "20000"}
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides(rate)))
    await until(lambda: image(cluster).overrides("broker", "") == rate)
    names = {"leader_replication_throttled_replicas": "0:1,1:1,2:1", "durability": "replicated"}
    topic = await replicated_topic(cluster, "throttled", [1, 2], partitions=3, **names)
    for index in range(3):
        await cluster.append(topic, batch(b"x" * 15_000), index=index, acks=1)
    everything = [at(topic, 0, index=index) for index in range(3)]
    assert len([payload for _, payload in await two.pull(*everything) if payload]) == 3
    await two.pull(*[at(topic, 1, index=index) for index in range(3)])
    # A second's worth at once, and what passes it is paid for.
    first = await three.pull(*everything)
    assert [pulled.partition for pulled, _ in first] == [0, 1]
    assert await three.pull() == []
    ((pulled, payload),) = await three.pull(max_wait_ms=8000)
    assert pulled.partition == 2
    assert payload


async def test_a_node_that_stops_keeps_nobody_waiting_and_lets_nobody_spin(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "stopping")
    await two.pull(at(topic, 0))
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    assert cluster.node is not None
    cluster.node.opened.leader_side.pulls.close()
    assert await waiting == []
    again = asyncio.ensure_future(two.pull(max_wait_ms=8000))
    await until(lambda: pulls_parked(cluster))
    assert await again == []


async def test_pulls_that_are_not_what_they_should_be_are_refused(cluster: StorageCluster, two: FakeFollower) -> None:
    from libs.rpc.contracts.replication import PROGRESS, PULL

    for wrong in ([], [1], [2, 10, 1, 0, 0, 1, 1, "x"]):
        with pytest.raises(RpcError) as refused:
            await two.client.call(PULL, wrong, timeout_s=60)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert two.client.oneway(PROGRESS, wrong)
    assert await two.pull() == []


def pulls_parked(cluster: StorageCluster) -> int:
    assert cluster.node is not None
    return cluster.node.opened.leader_side.pulls.parked


async def refusal(follower: FakeFollower, *named: object, max_wait_ms: int = 0) -> int:
    with pytest.raises(RpcError) as refused:
        await follower.pull(*named, max_wait_ms=max_wait_ms)  # type: ignore[arg-type]
    return refused.value.code


async def test_records_below_min_bytes_wait_for_more(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "least")
    await two.pull(at(topic, 0))
    one = batch(b"a")
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=60_000, min_bytes=len(one) + 1))
    await until(lambda: pulls_parked(cluster))
    await cluster.append(topic, one, acks=1)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await cluster.append(topic, batch(b"b"), acks=1)
    ((pulled, payload),) = await waiting
    assert (pulled.log_end_offset, len(payload)) == (2, partition_of(cluster, topic).log.size)


async def test_records_below_min_bytes_are_sent_when_the_wait_is_over(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "late")
    await two.pull(at(topic, 0))
    await cluster.append(topic, batch(b"a"), acks=1)
    ((_, payload),) = await two.pull(max_wait_ms=50, min_bytes=1 << 20)
    assert payload


async def test_min_bytes_hold_back_no_error_and_no_high_watermark_alone(cluster: StorageCluster, two: FakeFollower) -> None:
    topic = await replicated_topic(cluster, "urgent", [1, 2], durability="replicated")
    assert len(await two.pull(at(topic, 0), max_wait_ms=60_000, min_bytes=1000)) == 1  # the first high watermark
    await cluster.append(topic, batch(b"a"), acks=1)
    ((pulled, _),) = await two.pull(at(topic, 1), max_wait_ms=60_000, min_bytes=1000)
    assert pulled.high_watermark == 1
    ((pulled, _),) = await two.pull(at(topic, 7), max_wait_ms=60_000, min_bytes=1000)
    assert pulled.error == ErrorCode.OFFSET_OUT_OF_RANGE
