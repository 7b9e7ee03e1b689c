"""Consecutive batches of one call for one partition are one append. What comes of them is what would come of each alone."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from libs.commitlog.files.filesystem import Buffer
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND, Appended
from libs.rpc.messages.errors import RpcError
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader, iter_batches
from libs.wire.record_batches.records import Record, build_batch
from services.storage.partition.partition import Partition
from services.storage.partition.pending_append import StagedRun
from services.storage.produce import append_runs, appends
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, directory, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_topic, show
from tests.storage.fake_follower import image as image_of
from tests.storage.fake_transaction_coordinator import FakeTransactionCoordinator
from tests.storage.held_disk import HeldDisk
from tests.storage.set_clock import SetClock
from tests.support.polling import until

PRODUCER = 4711
CONFIGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "append time": {"message_timestamp_type": "LogAppendTime"},
    "small segments": {"internal_segment_bytes": "400", "index_interval_bytes": "0"},
    "one large segment of many index entries": {"index_interval_bytes": "0"},
}
KINDS = (*8 * ("plain",), *8 * ("next",), "again", "gap", "old epoch", "crc", "late", "short", "two", "elsewhere")


class WatchedDisk(HeldDisk):
    """It keeps the number of buffers of each write to a log. `room`: of a write to a log it takes so many bytes, and of the next
    one none. None: it has room."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.room: int | None = None

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self.writes.append(len(buffers))
        if self.room is None:
            return super().pwritev(fd, buffers, position)
        if not self.room:
            raise OSError(errno.ENOSPC, "no room")
        taken, self.room = b"".join(map(bytes, buffers))[: self.room], 0
        return super().pwritev(fd, [taken], position)


@pytest.fixture
def disk() -> Iterator[WatchedDisk]:
    watched = WatchedDisk()
    yield watched
    watched.release()


@pytest.fixture
async def coordinator(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[FakeTransactionCoordinator]:
    played = await FakeTransactionCoordinator(cluster).own(short_dir)
    yield played
    await played.close()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of batches of each run that was staged."""
    staged: list[int] = []

    class Counted(StagedRun):
        __slots__ = ()

        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            staged.append(self.batches)

    monkeypatch.setattr("services.storage.produce.append_runs.StagedRun", Counted)
    return staged


@contextmanager
def each_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(appends, "continues", lambda part, before: False)
        yield


def sending(
    cluster: StorageCluster,
    batches: Sequence[tuple[bytes, int, int, bytes]],
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
    transactional_id: str | None = None,
) -> "asyncio.Future[Response]":
    """An append of (topic id, partition, leader epoch, batch) on its way, as a gateway joins it of several requests."""
    assert cluster.client is not None
    parts = [[topic, index, epoch, len(content)] for topic, index, epoch, content in batches]
    body = [acks, timeout_ms, parts, transactional_id, -1, 0, True]
    return cluster.client.call(APPEND, body, [content for *_, content in batches], timeout_s=WAIT_S)


async def send(
    cluster: StorageCluster, topic: bytes, batches: Sequence[bytes], *, acks: int = -1, timeout_ms: int = 5000
) -> list[Appended]:
    """A joined append to one partition, by the epoch 0."""
    to_one = [(topic, 0, 0, content) for content in batches]
    return list(appended(await sending(cluster, to_one, acks=acks, timeout_ms=timeout_ms)))


def results(answers: Sequence[Appended]) -> list[tuple[int, int]]:
    return [(answer.error, answer.base_offset) for answer in answers]


def produced(sequence: int, *, epoch: int = 0, producer: int = PRODUCER, value: bytes = b"x") -> bytes:
    return batch(value, producer=(producer, epoch, sequence))


def of_transaction(sequence: int) -> bytes:
    record = Record(None, b"t", 1_700_000_000_000)
    return bytes(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True))


def damaged(content: bytes) -> bytes:
    bad = bytearray(content)
    bad[-1] ^= 1
    return bytes(bad)


def stored(cluster: StorageCluster, name: str) -> list[BatchHeader]:
    """The headers of all batches of a log."""
    files = sorted(directory(cluster, name).glob("*.log"))
    return [each.header for file in files for each in iter_batches(file.read_bytes())]


async def test_batches_that_follow_each_other_are_one_append(cluster: StorageCluster, disk: WatchedDisk, runs: list[int]) -> None:
    topic = await cluster.topic("run")
    disk.writes.clear()
    answers = await send(cluster, topic, [batch(b"a"), batch(b"b", b"c"), batch(b"d")])
    assert results(answers) == [(0, 0), (0, 1), (0, 3)]
    assert (runs, disk.writes[0]) == ([3], 1)
    assert [(each.base_offset, each.leader_epoch) for each in stored(cluster, "run")] == [(0, 0), (1, 0), (3, 0)]
    assert partition_of(cluster, topic).traffic.messages_in == 4


async def test_a_run_ends_where_the_partition_or_the_callers_epoch_changes(cluster: StorageCluster, runs: list[int]) -> None:
    topic = await cluster.topic("borders", partitions=2, epoch=3)
    to = [(topic, 0, 3), (topic, 0, 3), (topic, 1, 3), (topic, 1, 3), (topic, 1, 2), (topic, 0, 3)]
    answers = appended(await sending(cluster, [(*place, batch(b"x")) for place in to]))
    assert results(answers) == [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (0, 2)]
    assert runs == [2, 2]


@pytest.mark.parametrize("acks", [-1, 1])
async def test_a_bad_crc_amid_a_run_is_refused_alone(cluster: StorageCluster, runs: list[int], acks: int) -> None:
    topic = await cluster.topic("crc")
    sent = [batch(b"a"), batch(b"b"), damaged(batch(b"c")), batch(b"d"), batch(b"e")]
    answers = await send(cluster, topic, sent, acks=acks)
    assert results(answers) == [(0, 0), (0, 1), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 2), (0, 3)]
    assert runs == [2, 2]
    assert len(stored(cluster, "crc")) == 4


async def test_idempotent_batches_in_order_are_a_run_and_a_duplicate_gets_the_offset_of_its_original(
    cluster: StorageCluster, runs: list[int]
) -> None:
    topic = await cluster.topic("idempotent")
    answers = await send(cluster, topic, [produced(each) for each in (0, 1, 1, 2)])
    assert results(answers) == [(0, 0), (0, 1), (0, 1), (0, 2)]
    assert runs == [2]  # the last one follows nobody
    again = await send(cluster, topic, [produced(each) for each in (0, 1, 2)])
    assert results(again) == [(0, 0), (0, 1), (0, 2)]
    assert [each.base_sequence for each in stored(cluster, "idempotent")] == [0, 1, 2]


async def test_what_follows_a_gap_of_sequences_is_refused_and_others_are_stored(cluster: StorageCluster, runs: list[int]) -> None:
    topic = await cluster.topic("gap")
    sent = [produced(0), produced(1), produced(3), produced(4), batch(b"p"), batch(b"q"), produced(2)]
    answers = await send(cluster, topic, sent)
    gap = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert results(answers) == [(0, 0), (0, 1), gap, gap, (0, 2), (0, 3), (0, 4)]
    assert runs == [2, 3]


async def test_batches_that_refused_ones_are_to_precede_take_the_path_of_single_ones(
    cluster: StorageCluster, runs: list[int]
) -> None:
    topic = await cluster.topic("returning")
    replica = partition_of(cluster, topic).replica
    replica.min_in_sync = 2
    assert results(await send(cluster, topic, [produced(0), produced(1)])) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)] * 2
    replica.min_in_sync = 1
    overtaking = await send(cluster, topic, [produced(1), produced(2)])
    assert results(overtaking) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)] * 2
    assert not runs
    assert results(await send(cluster, topic, [produced(0), produced(1)])) == [(0, 0), (0, 1)]


async def test_a_transactional_batch_waits_and_those_beside_it_do_not(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, runs: list[int]
) -> None:
    topic = await cluster.topic("transactional")
    coordinator.held.clear()
    sent = [batch(b"a"), batch(b"b"), of_transaction(0), batch(b"c"), batch(b"d")]
    reply = sending(cluster, [(topic, 0, 0, each) for each in sent], transactional_id="t")
    await until(lambda: bool(coordinator.requests))
    assert partition_of(cluster, topic).log_end_offset == 4
    coordinator.held.set()
    assert results(appended(await reply)) == [(0, 0), (0, 1), (0, 4), (0, 2), (0, 3)]
    assert not runs


async def test_a_batch_of_a_transaction_that_its_request_does_not_name_ends_a_run(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, runs: list[int]
) -> None:
    topic = await cluster.topic("unnamed")
    first = sending(cluster, [(topic, 0, 0, of_transaction(0))], transactional_id="t")
    assert results(appended(await first)) == [(0, 0)]
    sent = [batch(b"a"), batch(b"b"), of_transaction(1), batch(b"c"), batch(b"d")]
    assert results(await send(cluster, topic, sent)) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert runs == [2, 2]


async def test_a_request_of_a_transaction_is_not_looked_through_for_runs(
    cluster: StorageCluster, coordinator: FakeTransactionCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches would be checked twice, by all of their bytes."""

    def stage_run(*_: object, **__: object) -> tuple[int, int]:
        raise AssertionError

    monkeypatch.setattr(appends, "stage_run", stage_run)
    topic = await cluster.topic("named")
    sent = [(topic, 0, 0, of_transaction(each)) for each in range(3)]
    assert results(appended(await sending(cluster, sent, transactional_id="t"))) == [(0, 0), (0, 1), (0, 2)]


async def test_a_fault_amid_a_run_stores_what_is_before_it_and_loses_nothing(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producers are recorded. A batch that is sent again must be a duplicate of one in the log."""
    topic = await cluster.topic("fault")
    checked = append_runs.validate_produce

    def fails_at_the_third(view: memoryview, *more: Any) -> BatchHeader:
        header = checked(view, *more)
        assert header.base_sequence != 2
        return header

    with monkeypatch.context() as patched:
        patched.setattr(append_runs, "validate_produce", fails_at_the_third)
        with pytest.raises(RpcError):
            await send(cluster, topic, [produced(each) for each in range(4)])
    again = await send(cluster, topic, [produced(each) for each in range(4)])
    assert results(again) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert results(await send(cluster, topic, [produced(each) for each in (4, 5)])) == [(0, 4), (0, 5)]
    assert [each.base_sequence for each in stored(cluster, "fault")] == list(range(6))


async def test_a_topic_whose_batches_are_opened_has_no_runs(cluster: StorageCluster, runs: list[int]) -> None:
    topic = await cluster.topic("opened", record_validation="full")
    assert results(await send(cluster, topic, [batch(b"a"), batch(b"b")])) == [(0, 0), (0, 1)]
    assert not runs


async def test_a_run_that_crosses_a_roll_is_whole_after_a_restart(cluster: StorageCluster, runs: list[int]) -> None:
    topic = await cluster.topic("rolling", internal_segment_bytes="300")
    sent = [produced(each, value=b"v" * 50) for each in range(10)]
    assert results(await send(cluster, topic, sent)) == [(0, each) for each in range(10)]
    assert runs == [10]
    assert len(list(directory(cluster, "rolling").glob("*.log"))) > 3
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert [each.base_sequence for each in stored(cluster, "rolling")] == list(range(10))
    assert (await cluster.append(topic, sent[-1], epoch=1)).base_offset == 9
    assert (await cluster.append(topic, produced(10), epoch=1)).base_offset == 10


@pytest.mark.parametrize("name", ["defaults", "small segments"])
async def test_a_disk_that_fails_at_the_second_batch_takes_none(cluster: StorageCluster, disk: WatchedDisk, name: str) -> None:
    topic = await cluster.topic("failing", **CONFIGS[name])
    assert results(await send(cluster, topic, [produced(0)])) == [(0, 0)]
    sent = [produced(each, value=b"v" * 200) for each in (1, 2, 3)]
    disk.room = len(sent[0]) + 10
    answers = await send(cluster, topic, sent)
    assert results(answers) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 3
    partition = partition_of(cluster, topic)
    assert (partition.log_end_offset, partition.next_offset, partition.traffic.failed_produces) == (1, 1, 3)
    assert len(stored(cluster, "failing")) == 1
    disk.room = None
    assert results(await send(cluster, topic, sent)) == [(0, 1), (0, 2), (0, 3)]  # no duplicates: nothing was recorded


async def test_producers_of_a_run_that_was_not_written_send_its_batches_again_in_order(
    cluster: StorageCluster, disk: WatchedDisk
) -> None:
    topic = await cluster.topic("again")
    disk.room = 0
    unwritten = [produced(0), produced(0, producer=PRODUCER + 1), produced(1)]
    assert results(await send(cluster, topic, unwritten)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 3
    disk.room = None
    gap = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert results(await send(cluster, topic, [produced(1), produced(1, producer=PRODUCER + 1)])) == [gap] * 2
    assert results(await send(cluster, topic, unwritten)) == [(0, 0), (0, 1), (0, 2)]


async def test_batches_behind_one_that_is_sent_to_the_store_are_read_from_their_bytes(cluster: StorageCluster) -> None:
    """A refusal of a sequence waits for the store, and gives the receive buffer back."""
    topic = await cluster.topic("behind")
    answers = await send(cluster, topic, [produced(0), produced(5), batch(b"a"), batch(b"b")])
    assert results(answers) == [(0, 0), (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), (0, 1), (0, 2)]


async def test_a_leader_that_changes_between_two_runs_stores_the_first_alone(cluster: StorageCluster, runs: list[int]) -> None:
    topic = await replicated_topic(cluster, "changed", isr=(1,))
    assert results(await send(cluster, topic, [batch(b"a"), batch(b"b")])) == [(0, 0), (0, 1)]
    state = image_of(cluster).partition(topic, 0)
    assert state is not None
    await show(cluster, topic, state, leader=2, leader_epoch=1, partition_epoch=1)
    refused = await send(cluster, topic, [batch(b"c"), batch(b"d")])
    assert [answer.error for answer in refused] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert not any(answer.in_log for answer in refused)
    assert (runs, partition_of(cluster, topic).log_end_offset) == ([2], 2)


@pytest.fixture
async def follower(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


async def half_committed(
    cluster: StorageCluster, follower: FakeFollower, topic: bytes, *, timeout_ms: int
) -> "asyncio.Future[Response]":
    """A run of four batches, of which the follower has two. Each in-sync replica needs them."""
    await follower.pull(at(topic, 0))
    sent = sending(cluster, [(topic, 0, 0, batch(b"x"))] * 4, timeout_ms=timeout_ms)
    partition = partition_of(cluster, topic)
    await until(lambda: partition.replica.durable == 4 and len(partition.parked) == 1)
    await follower.pull(at(topic, 2))
    await until(lambda: partition.high_watermark == 2)
    assert not sent.done()
    return sent


async def test_a_lost_leader_refuses_the_part_of_a_run_that_is_not_committed(
    cluster: StorageCluster, follower: FakeFollower, runs: list[int]
) -> None:
    topic = await replicated_topic(cluster, "lost", isr=(1, 2), replicas=(1, 2))
    sent = await half_committed(cluster, follower, topic, timeout_ms=60_000)
    state = image_of(cluster).partition(topic, 0)
    assert state is not None
    await show(cluster, topic, state, leader=2, leader_epoch=1, partition_epoch=1)
    answers = appended(await sent)
    assert [answer.error for answer in answers] == [0, 0, *[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2]
    assert [answer.in_log for answer in answers] == [False, False, True, True]
    assert runs == [4]


async def test_a_timeout_is_told_of_the_part_of_a_run_that_is_not_committed(
    cluster: StorageCluster, follower: FakeFollower, runs: list[int]
) -> None:
    topic = await replicated_topic(cluster, "timeout", isr=(1, 2), replicas=(1, 2))
    partition = partition_of(cluster, topic)
    assert cluster.node is not None
    sent = await half_committed(cluster, follower, topic, timeout_ms=1500)
    assert results(appended(await sent)) == [(0, 0), (0, 1), *[(ErrorCode.REQUEST_TIMED_OUT, -1)] * 2]
    assert (cluster.node.meters.expired_produces, partition.traffic.failed_produces) == (2, 2)
    assert runs == [4]


# --- against the path of single batches


class Traffic:
    """Calls that a seed draws: batches of all kinds for two partitions, from a few producers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sequences = dict.fromkeys(range(PRODUCER, PRODUCER + 2), 0)

    def calls(self) -> list[list[tuple[int, bytes]]]:
        """Of each call the (partition, batch)."""
        return [[self._drawn() for _ in range(self._random.randint(1, 12))] for _ in range(12)]

    def _drawn(self) -> tuple[int, bytes]:
        drawn = self._random
        producer = drawn.choice(list(self._sequences))
        sequence = self._sequences[producer]
        values = [bytes([drawn.randrange(256)]) * drawn.randrange(1, 80) for _ in range(drawn.randint(1, 3))]
        timestamp = 1_700_000_000_000 + drawn.randrange(1000)
        kind = drawn.choice(KINDS)
        if kind == "elsewhere":
            return 1, batch(*values, timestamp=timestamp)
        if kind == "next":
            self._sequences[producer] += len(values)
            return 0, batch(*values, timestamp=timestamp, producer=(producer, 1, sequence))
        if kind == "again":
            return 0, batch(b"x", timestamp=timestamp, producer=(producer, 1, max(0, sequence - 1)))
        if kind == "gap":
            return 0, batch(*values, timestamp=timestamp, producer=(producer, 1, sequence + 7))
        if kind == "old epoch":
            return 0, batch(*values, timestamp=timestamp, producer=(producer, 0, sequence))
        plain = batch(*values, timestamp=timestamp + (1 << 50 if kind == "late" else 0))
        return 0, {"crc": damaged(plain), "short": plain[: drawn.randrange(len(plain))], "two": plain + plain}.get(kind, plain)


def state_of(partition: Partition) -> object:
    log = partition.log
    producers = dict(log.producers.entries.items())
    return producers, log.log_end_offset, log.epochs.latest, partition.next_offset, partition.acknowledged_end


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
async def test_answers_bytes_indexes_and_producers_are_those_of_single_appends(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch, runs: list[int], name: str, seed: int
) -> None:
    in_runs, alone = [await cluster.topic(topic, partitions=2, **CONFIGS[name]) for topic in ("in-runs", "alone")]
    for number, call in enumerate(Traffic(seed).calls()):
        acks = -1 if number % 2 else 1
        told = await sending(cluster, [(in_runs, index, 0, content) for index, content in call], acks=acks)
        with each_alone(monkeypatch):
            expected = await sending(cluster, [(alone, index, 0, content) for index, content in call], acks=acks)
        assert told.body == expected.body
        clock.jumped_ms += 1
    assert max(runs) > 2
    assert cluster.node is not None
    for index in range(2):
        states = [state_of(cluster.node.partitions.by_key[topic, index]) for topic in (in_runs, alone)]
        assert states[0] == states[1]
        files = [_files(directory(cluster, topic).with_name(f"{topic}-{index}")) for topic in ("in-runs", "alone")]
        assert files[0] == files[1]
        assert any(name.endswith(".log") and content for name, content in files[0].items())


def _files(folder: Path) -> dict[str, bytes]:
    """What appends write: batches and their indexes."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix in (".log", ".index", ".timeindex")}
