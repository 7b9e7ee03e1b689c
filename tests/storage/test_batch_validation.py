"""Batches that are opened go on in the order in which they came, whatever happens to them or to their partition meanwhile."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from crc32c import crc32c

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import Appended
from libs.runtime.children import ChildProcesses
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.compression import DECOMPRESSED_BYTES_MAX
from libs.wire.record_batches.records import BatchView, Record, build_batch, iter_batches, iter_records
from services.storage.produce.validation_job import INLINE_BYTES_MAX
from tests.storage.cluster import StorageCluster, appended, batch, partition_of
from tests.storage.held_children import HeldChildren
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

LARGE = INLINE_BYTES_MAX + 1
NOW = 1_700_000_000_000


@pytest.fixture
def children() -> HeldChildren:
    return HeldChildren()


@pytest.fixture
async def cluster(tmp_path: Path, short_dir: Path, disk: HeldDisk, children: HeldChildren) -> AsyncIterator[StorageCluster]:
    cluster = StorageCluster(tmp_path, short_dir, disk)
    cluster.children = lambda name, count, nice: children
    try:
        await cluster.start()
        yield cluster
    finally:
        children.release()
        await cluster.stop()
        await cluster.store.close()


def send(
    cluster: StorageCluster, topic: bytes, sent: bytes, *, acks: int = -1, timeout_ms: int = 9000
) -> "asyncio.Future[Response]":
    return cluster.send([(topic, 0, sent)], acks=acks, timeout_ms=timeout_ms)


async def answer(response: "asyncio.Future[Response]") -> Appended:
    return appended(await response)[0]


def closed(mark: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch that goes to a child: it is compressed."""
    record = Record(None, mark + bytes(100), NOW)
    producer_id, epoch, sequence = producer
    return bytes(build_batch([record], codec=1, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))


def stored_batches(cluster: StorageCluster, topic: bytes) -> list[BatchView]:
    log = partition_of(cluster, topic).log
    data = b""
    for segment in log.segments:
        with open(f"{log.directory}/{segment.base_offset:020d}.log", "rb") as file:
            data += file.read(segment.size)
    return list(iter_batches(data))


def values(cluster: StorageCluster, topic: bytes) -> list[bytes]:
    """The first byte of every record in the log."""
    return [(record.value or b"")[:1] for one in stored_batches(cluster, topic) for record in iter_records(one.view)]


# --- order


async def test_a_batch_behind_one_that_is_being_opened_waits_for_it(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    first = send(cluster, topic, closed(b"a"))
    await until(lambda: children.jobs)
    behind = [
        send(cluster, topic, batch(b"b"), acks=0),
        send(cluster, topic, batch(b"c"), acks=1),
        send(cluster, topic, closed(b"d")),
    ]
    other = await cluster.topic("other")
    assert (await cluster.append(other, batch(b"x"))).base_offset == 0
    assert not any(each.done() for each in (first, *behind))
    children.release()
    assert [(await answer(each)).base_offset for each in (first, *behind)] == [0, 1, 2, 3]
    assert values(cluster, topic) == [b"a", b"b", b"c", b"d"]


async def test_small_batches_are_opened_without_a_child(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    assert (await cluster.append(topic, batch(*[bytes(900)] * 64))).base_offset == 0
    assert not children.jobs


@pytest.mark.parametrize(
    "made",
    [
        build_batch([Record(b"k", b"v", NOW)], codec=1),
        build_batch([Record(b"k", b"v", NOW)] * 65),
        build_batch([Record(b"k", bytes(INLINE_BYTES_MAX), NOW)]),
        build_batch([Record(b"k", b"v", NOW, (("h", None),) * 65)] * 2),
    ],
    ids=["compressed", "many records", "many bytes", "many headers"],
)
async def test_a_batch_that_may_take_long_is_opened_by_a_child(
    cluster: StorageCluster, children: HeldChildren, made: bytearray
) -> None:
    topic = await cluster.topic("t", record_validation="full")
    waiting = send(cluster, topic, bytes(made))
    await until(lambda: children.jobs)
    children.release()
    assert (await answer(waiting)).base_offset == 0


async def test_a_duplicate_waits_for_its_original(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    original = closed(b"a", producer=(9, 0, 0))
    sent = [send(cluster, topic, one) for one in (original, original, batch(b"b", producer=(9, 0, 1)))]
    await until(lambda: children.jobs)
    children.release()
    assert [(await answer(each)).base_offset for each in sent] == [0, 0, 1]


async def test_whatever_is_sent_is_stored_in_that_order(cluster: StorageCluster, children: HeldChildren) -> None:
    """Two children that end in any order, and batches of every kind."""
    assert cluster.node is not None
    cluster.node.opened.appends._validation._count = 2
    chance = random.Random(4)
    topics = [await cluster.topic(f"t{number}", record_validation="full") for number in range(3)]
    sent: dict[bytes, list[tuple[bytes, asyncio.Future[Response]]]] = {topic: [] for topic in topics}
    for number in range(150):
        topic = chance.choice(topics)
        mark = b"%c" % (number % 256)
        sequence = len(sent[topic])
        made = chance.choice([batch, closed])(mark, producer=(7, 0, sequence))
        sent[topic].append((mark, send(cluster, topic, made, acks=chance.choice([0, 1, -1]), timeout_ms=60_000)))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        if children.jobs and chance.random() < 0.5:
            chance.choice(children.jobs).do()
    children.release()
    for topic, pairs in sent.items():
        assert [(await answer(future)).base_offset for _, future in pairs] == list(range(len(pairs)))
        assert values(cluster, topic) == [mark for mark, _ in pairs]


async def test_waiting_batches_go_to_a_child_together(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    sent = [send(cluster, topic, closed(b"%d" % number)) for number in range(6)]
    await until(lambda: len(hosted_line(cluster, topic)) == 6)
    children.release()
    assert [(await answer(each)).base_offset for each in sent] == list(range(6))
    assert len(children.jobs) <= 3


def hosted_line(cluster: StorageCluster, topic: bytes) -> list[object]:
    assert cluster.node is not None
    return list(cluster.node.opened.appends._validation._queues.get(partition_of(cluster, topic), ()))


async def test_a_topic_that_asks_no_more_keeps_the_order_until_the_last_one_is_through(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    topic = await cluster.topic("t", record_validation="full")
    first = send(cluster, topic, closed(b"a"))
    await until(lambda: children.jobs)
    await cluster.write(keys.config("topic", "t"), encode(ConfigOverrides({})))
    await until(lambda: partition_of(cluster, topic).rules is None)
    second = send(cluster, topic, closed(b"b"))
    await cluster.list_offset(topic, -1)
    assert not second.done()
    children.release()
    assert [(await answer(each)).base_offset for each in (first, second)] == [0, 1]
    assert not partition_of(cluster, topic).opens
    assert len(children.jobs) == 1


async def test_a_large_batch_stays_whole_while_others_pass_through_the_same_buffers(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    opened, other = await cluster.topic("opened", record_validation="full"), await cluster.topic("other")
    content = os.urandom(200_000)
    waiting = send(cluster, opened, batch(content, content))
    await until(lambda: children.jobs)
    for _ in range(30):
        await cluster.append(other, batch(os.urandom(100_000)))
    children.release()
    assert (await answer(waiting)).error == 0
    (stored,) = stored_batches(cluster, opened)
    assert stored.crc_matches
    assert [record.value for record in iter_records(stored.view)] == [content, content]


async def test_a_request_of_several_partitions_is_answered_when_the_last_is_opened(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    opened, other = await cluster.topic("opened", record_validation="full"), await cluster.topic("other")
    waiting = cluster.send([(other, 0, batch(b"a")), (opened, 0, closed(b"b")), (opened, 0, batch(b"c"))])
    await until(lambda: partition_of(cluster, other).log.log_end_offset == 1)
    assert not waiting.done()
    children.release()
    assert [(each.error, each.base_offset) for each in appended(await waiting)] == [(0, 0), (0, 0), (0, 1)]


async def test_a_connection_is_not_read_from_while_too_much_of_it_waits(cluster: StorageCluster, children: HeldChildren) -> None:
    assert cluster.node is not None
    server = cluster.node.registration.server
    assert server is not None
    server.max_outstanding = 200_000
    topic = await cluster.topic("t", record_validation="full")
    made = bytes(build_batch([Record(None, os.urandom(20_000), NOW)], codec=1))
    sent = [send(cluster, topic, made) for _ in range(200)]
    await until(lambda: any(one._paused for one in server.open_connections))
    held = len(hosted_line(cluster, topic))
    assert held < 200
    children.release()
    assert [(await answer(each)).base_offset for each in sent] == list(range(200))


# --- what may happen meanwhile


async def test_a_waiting_batch_is_refused_when_another_node_leads(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", epoch=1, record_validation="full")
    waiting = [send(cluster, topic, closed(b"a")), send(cluster, topic, batch(b"b"), acks=1)]
    await until(lambda: len(hosted_line(cluster, topic)) == 2)
    await cluster.state(topic, epoch=2, leader=7, incarnation=1)
    for each in waiting:
        result = await answer(each)
        assert (result.error, result.leader, result.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 2)
    await cluster.state(topic, epoch=3)
    await cluster.leads(topic, epoch=3)
    children.release()
    assert (await cluster.append(topic, batch(b"c"))).base_offset == 0  # what a child says too late is of no use


async def test_a_waiting_batch_is_refused_when_the_topic_is_deleted(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    waiting = send(cluster, topic, closed(b"a"))
    await until(lambda: children.jobs)
    await cluster.write(keys.topic("t"), None)
    assert (await answer(waiting)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert children.jobs[0].future.cancelled()


async def test_a_batch_that_waits_past_its_time_is_answered_and_so_are_those_behind_it(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    topic = await cluster.topic("t", record_validation="full")
    waiting = [send(cluster, topic, closed(b"a"), timeout_ms=50), send(cluster, topic, closed(b"b"))]
    assert [(await answer(each)).error for each in waiting] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    await until(lambda: all(job.future.cancelled() for job in children.jobs))
    children.release()
    assert (await cluster.append(topic, closed(b"c"))).base_offset == 0


async def test_a_timeout_of_nothing_is_time_enough_to_be_opened(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    waiting = send(cluster, topic, closed(b"a"), acks=1, timeout_ms=0)
    await until(lambda: children.jobs)
    children.release()
    assert (await answer(waiting)).base_offset == 0


async def test_a_caller_that_hung_up_is_not_served(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    given_up, kept = send(cluster, topic, closed(b"a")), send(cluster, topic, closed(b"b"))
    await until(lambda: len(hosted_line(cluster, topic)) == 2)
    given_up.cancel()
    await cluster.list_offset(topic, -1)  # answered after the cancellation has arrived
    children.release()
    assert (await answer(kept)).base_offset == 0


async def test_a_waiting_batch_is_refused_when_the_node_stops(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    waiting = [send(cluster, topic, closed(b"a")), send(cluster, topic, batch(b"b"))]
    await until(lambda: len(hosted_line(cluster, topic)) == 2)
    assert cluster.node is not None
    cluster.node.opened.appends.stop()
    assert [(await answer(each)).error for each in waiting] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_a_batch_whose_child_died_is_tried_once_more_by_itself(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full")
    sent = [send(cluster, topic, closed(b"%d" % number)) for number in range(3)]
    await until(lambda: len(hosted_line(cluster, topic)) == 3)
    children.jobs[0].die()
    await until(lambda: len(children.jobs) > 1)
    assert len(children.jobs[1].argument) == 1
    children.jobs[1].die()
    await until(lambda: len(children.jobs) > 2)
    children.release()
    answers = [await answer(each) for each in sent]
    assert [(each.error, each.base_offset) for each in answers] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (0, 0), (0, 1)]


async def test_more_than_may_wait_is_refused(
    cluster: StorageCluster, children: HeldChildren, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.produce.batch_validation.WAITING_BYTES_MAX", 2 * len(closed(b"a")) - 1)
    topic = await cluster.topic("t", record_validation="full")
    first, second = send(cluster, topic, closed(b"a")), send(cluster, topic, closed(b"b"))
    assert (await answer(second)).error == ErrorCode.REQUEST_TIMED_OUT
    children.release()
    assert (await answer(first)).base_offset == 0


async def test_a_batch_of_a_new_producer_that_could_not_be_opened_is_not_overtaken(
    cluster: StorageCluster, children: HeldChildren, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("t", record_validation="full")
    sent = [send(cluster, topic, closed(b"%d" % sequence, (7, 0, sequence))) for sequence in range(2)]
    await until(lambda: len(hosted_line(cluster, topic)) == 2)
    children.jobs[0].die()
    await until(lambda: len(children.jobs) > 1)
    children.jobs[1].die()
    await until(lambda: len(children.jobs) > 2)
    children.release()
    answers = [(await answer(each)).error for each in sent]
    assert answers == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    with monkeypatch.context() as nothing_waits:
        nothing_waits.setattr("services.storage.produce.batch_validation.WAITING_BYTES_MAX", 1)
        refused = await answer(send(cluster, topic, closed(b"x", (8, 0, 0))))
    assert refused.error == ErrorCode.REQUEST_TIMED_OUT
    overtaking = await answer(send(cluster, topic, closed(b"y", (8, 0, 1))))
    assert overtaking.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for producer in (7, 8):
        assert [(await answer(send(cluster, topic, closed(b"z", (producer, 0, at))))).error for at in range(2)] == [0, 0]


async def test_a_child_that_is_killed_costs_nobody_an_answer(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> None:
    cluster = StorageCluster(tmp_path, short_dir, disk)
    processes = []

    def children(name: str, count: int, nice: int) -> ChildProcesses:
        processes.append(ChildProcesses(name, count, nice=nice))
        return processes[-1]

    cluster.children = children
    try:
        await cluster.start()
        topic = await cluster.topic("t", compression_type="zstd", compression_zstd_level="19")
        text = b"".join(b"%d " % (number * 7919) for number in range(40_000))
        stored = []
        for number in range(12):
            waiting = [send(cluster, topic, batch(b"%x" % number + text, producer=(5, 0, number)), timeout_ms=30_000)]
            running = [child for each in processes for child in each._all]
            if number % 3 == 1 and running:
                os.kill(running[0]._process.pid, signal.SIGKILL)
            stored += [await answer(each) for each in waiting]
        assert [(each.error, each.base_offset) for each in stored] == [(0, number) for number in range(12)]
        assert values(cluster, topic) == [b"%x" % number for number in range(12)][:12]
    finally:
        await cluster.stop()
        await cluster.store.close()


# --- what the records must be


async def test_rows_25_and_30_records_that_make_no_sense_are_refused_by_a_child_as_in_place(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    children.release()
    topic = await cluster.topic("t", record_validation="full")
    for size in (1, LARGE):
        bad = bytearray(batch(bytes(size)))
        bad[-1] = 0x7E
        bad[17:21] = crc_of(bad)
        result = await cluster.append(topic, bytes(bad))
        assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)
    assert len(children.jobs) == 1


def crc_of(made: bytearray) -> bytes:
    return crc32c(bytes(made[21:])).to_bytes(4, "big")


async def test_row_26_records_without_keys_are_named_on_a_compacted_topic(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    children.release()
    topic = await cluster.topic("t", cleanup_policy="compact,delete")
    for filler in (b"", bytes(LARGE)):
        mixed = bytes(build_batch([Record(None, filler, NOW), Record(b"k", None, NOW), Record(None, b"", NOW)]))
        result = await cluster.append(topic, mixed)
        assert (result.error, [index for index, _ in result.record_errors]) == (ErrorCode.INVALID_RECORD, [0, 2])
        assert result.message
    assert (await cluster.append(topic, bytes(build_batch([Record(b"k", None, NOW)])))).base_offset == 0


async def test_row_27_records_outside_the_window_are_named(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", record_validation="full", message_timestamp_before_max_ms="3600000")
    now = cluster.clock.wall_ms()
    times = [now, now - 3_700_000, now + 3_700_000, -1]
    result = await cluster.append(topic, bytes(build_batch([Record(b"k", b"v", each) for each in times])))
    assert (result.error, [index for index, _ in result.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [1, 2])


async def test_row_29_a_bomb_stops_at_the_cap_and_the_node_goes_on(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> None:
    cluster = StorageCluster(tmp_path, short_dir, disk)
    cluster.children = lambda name, count, nice: ChildProcesses(name, count, nice=nice)
    try:
        await cluster.start()
        topic = await cluster.topic("t", record_validation="full")
        bomb = bytes(build_batch([Record(b"k", bytes(DECOMPRESSED_BYTES_MAX + 1), NOW)], codec=4))
        waiting = send(cluster, topic, bomb, timeout_ms=30_000)
        assert (await cluster.list_offset(topic, -1)).offset == 0
        assert (await answer(waiting)).error == ErrorCode.MESSAGE_TOO_LARGE
        assert (await cluster.append(topic, batch(b"a"))).base_offset == 0
    finally:
        await cluster.stop()
        await cluster.store.close()


async def test_a_bomb_that_was_stored_unopened_does_not_stop_list_offsets(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    children.release()
    topic = await cluster.topic("t")
    first, second = Record(b"k", bytes(DECOMPRESSED_BYTES_MAX + 1), NOW), Record(b"k", b"v", NOW + 10)
    assert (await cluster.append(topic, bytes(build_batch([first, second], codec=4)))).error == 0
    assert (await cluster.append(topic, batch(b"a", timestamp=NOW + 20))).error == 0
    assert (await cluster.list_offset(topic, NOW + 5)).offset == 0  # the batch that says it has it
    assert (await cluster.list_offset(topic, NOW + 15)).offset == 2


async def test_a_newest_time_that_is_not_true_is_stored_true(cluster: StorageCluster, children: HeldChildren) -> None:
    children.release()
    topic = await cluster.topic("t", record_validation="full")
    for size in (1, LARGE):
        made = bytearray(batch(bytes(size), timestamp=NOW))
        made[35:43] = (NOW + 5).to_bytes(8, "big")
        made[17:21] = crc_of(made)
        assert (await cluster.append(topic, bytes(made))).error == 0
    assert (await cluster.list_offset(topic, -3)).timestamp == NOW
    assert (await cluster.list_offset(topic, NOW + 1)).offset == -1


async def test_a_topic_that_stamps_stamps_what_was_rebuilt(cluster: StorageCluster, children: HeldChildren) -> None:
    children.release()
    topic = await cluster.topic("t", compression_type="lz4", message_timestamp_type="LogAppendTime")
    result = await cluster.append(topic, closed(b"a"))
    assert result.log_append_time_ms > NOW
    (stored,) = stored_batches(cluster, topic)
    assert stored.crc_matches
    assert (stored.header.max_timestamp, stored.header.codec) == (result.log_append_time_ms, 3)


async def test_a_codec_that_is_the_topics_already_is_not_opened(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await cluster.topic("t", compression_type="zstd")
    sent = bytes(build_batch([Record(b"k", bytes(LARGE), NOW)], codec=4))
    assert (await cluster.append(topic, sent)).base_offset == 0
    assert not children.jobs


async def test_a_batch_that_is_too_large_once_rebuilt_is_refused(cluster: StorageCluster, children: HeldChildren) -> None:
    children.release()
    topic = await cluster.topic("t", compression_type="uncompressed", max_message_bytes="5000")
    result = await cluster.append(topic, bytes(build_batch([Record(b"k", bytes(10_000), NOW)], codec=4)))
    assert result.error == ErrorCode.MESSAGE_TOO_LARGE
