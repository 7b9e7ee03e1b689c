"""AlterReplicaLogDirs: replicas move from one log directory of a node to another, and nothing is lost on the way."""

import asyncio
import errno
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, InSync, PartitionState, Topic
from libs.commitlog.partition_log.future_log import FutureLog
from libs.rpc.contracts.storage import (
    OPEN_FILE,
    OpenFile,
    OpenFileReply,
)
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.storage.disks.disks import Disk
from tests.storage.cluster import NODE_ID, WAIT_S, StorageCluster, batch, fetched, partition_of, storage_cluster
from tests.storage.held_disk import OneBadDisk
from tests.storage.naming_controller import NamingController
from tests.storage.three_nodes import Nodes, nodes
from tests.storage.two_directories import (
    arrived,
    both,
    controller,
    described,
    disks,
    give_back,
    home,
    move,
    moves,
    names,
    numbers,
    other,
    stored,
    values,
    with_two_directories,
)
from tests.support.polling import until

__all__ = ["both", "controller"]

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
FOREVER = {THROTTLE: "1", "log.segment.delete.delay.ms": "50"}


@pytest.fixture
def disk() -> OneBadDisk:
    return OneBadDisk()


async def throttle(cluster: StorageCluster, values: dict[str, str]) -> None:
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides(values)))


async def on_its_way(cluster: StorageCluster, topic: bytes) -> Disk:
    """As slow as can be: it does not arrive. Where it goes."""
    await throttle(cluster, FOREVER)
    target = other(cluster, topic)
    assert await move(cluster, topic, target.path) == 0
    await until(lambda: any(move.copy is not None and move.copy.size for move in moves(cluster).in_progress()))
    return target


async def again(cluster: StorageCluster, topic: bytes, epoch: int = 1) -> None:
    """The node is started anew, and elected."""
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=epoch)
    await cluster.leads(topic, 0, epoch)


def more_than(found: list[bytes], count: int) -> bool:
    return len(found) > count


@asynccontextmanager
async def producing(cluster: StorageCluster, topic: bytes) -> AsyncIterator[list[bytes]]:
    """An idempotent producer with several batches on their way; what was acknowledged, in order."""
    acknowledged: list[bytes] = []
    ended = asyncio.Event()

    async def produce(producer: int) -> None:
        sequence = 0
        while not ended.is_set():
            value = b"%d-%d" % (producer, sequence)
            stored = await cluster.append(topic, batch(value, producer=(producer, 0, sequence)))
            assert stored.error == 0, stored
            acknowledged.append(value)
            sequence += 1

    producers = [asyncio.create_task(produce(number)) for number in range(4)]
    await until(lambda: len(acknowledged) > 100)
    yield acknowledged
    enough = len(acknowledged) + 100
    await until(lambda: len(acknowledged) > enough)
    ended.set()
    await asyncio.gather(*producers)


async def test_a_replica_moves_with_all_it_has_and_goes_on(both: StorageCluster) -> None:
    topic = await both.topic("t", internal_segment_bytes="1000")
    for number in range(50):
        await both.append(topic, values(number))
    source, target = home(both, topic), other(both, topic)
    assert await move(both, topic, target.path) == 0
    await until(lambda: home(both, topic) is target)
    assert (await both.append(topic, values(50))).base_offset == 50
    assert await stored(both, topic) == [b"%d" % number for number in range(51)]
    assert await described(both) == {source.path: [], target.path: [("t-0", 0, False)]}
    await until(lambda: not [path for path in Path(source.path).iterdir() if path.name.startswith("t-0")])
    await both.stop()
    await both.start()
    await both.state(topic, epoch=1)
    await both.leads(topic, 0, 1)
    assert home(both, topic).path == target.path
    assert await stored(both, topic) == [b"%d" % number for number in range(51)]


async def test_under_load_no_append_fails_and_each_that_was_acknowledged_is_there_once(both: StorageCluster) -> None:
    topic = await both.topic("t", internal_segment_bytes="20000")
    async with producing(both, topic) as acknowledged:
        for _ in range(3):
            target = other(both, topic)
            enough = len(acknowledged) + 100
            await until(partial(more_than, acknowledged, enough))
            assert await move(both, topic, target.path) == 0
            await arrived(both, topic, target)
    assert sorted(await stored(both, topic)) == sorted(acknowledged)
    await again(both, topic)
    assert sorted(await stored(both, topic)) == sorted(acknowledged)


async def test_state_that_no_batch_holds_moves_along_and_outlives_a_crash(both: StorageCluster) -> None:
    topic = await both.topic("t", internal_segment_bytes="1000", file_delete_delay_ms="10")
    last = batch(b"a", producer=(7, 0, 0))
    await both.append(topic, last)
    for number in range(40):
        await both.append(topic, values(number))
    assert (await both.delete_records(topic, 38)).error == 0  # in a segment that begins before
    await both.state(topic, epoch=5)
    await both.leads(topic, 0, 5)  # in which nothing is written
    before = partition_of(both, topic).log
    producers, epochs, start = dict(before.producers.entries), before.epochs.entries(), before.log_start_offset
    assert list(producers) == [7]
    target = other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    log = partition_of(both, topic).log
    assert log.epochs.entries() == epochs == [(0, 38), (5, 41)]
    assert log.segments[0].base_offset == 38
    await until(lambda: partition_of(both, topic).high_watermark == 41)
    kept = both.config
    for disk in disks(both):  # a crash: nothing is closed
        disk.sync.fail(OSError("killed"))
    await both.stop()
    for path in kept.directories:
        give_back(path)
    await both.start()
    await both.state(topic, epoch=6)
    await both.leads(topic, 0, 6)
    log = partition_of(both, topic).log
    assert (log.log_start_offset, log.log_end_offset, dict(log.producers.entries)) == (start, 41, producers)
    assert log.epochs.entries()[:-1] == [entry for entry in epochs if entry[1] < 41]
    repeated = await both.append(topic, last)
    assert (repeated.error, repeated.base_offset) == (0, 0)


async def test_a_move_shows_as_a_future_log_with_what_it_lacks(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    source = home(both, topic)
    target = await on_its_way(both, topic)
    found = await described(both)
    assert found[source.path] == [("t-0", 0, False)]
    ((name, lag, is_future),) = found[target.path]
    assert (name, is_future) == ("t-0", True)
    assert lag > 0
    await throttle(both, {"log.segment.delete.delay.ms": "50"})
    await arrived(both, topic, target)


async def test_while_it_is_switched_it_shows_where_it_was(both: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await both.topic("t")
    await both.append(topic, values(0))
    source, target = home(both, topic), other(both, topic)
    begun, finished, finish = threading.Event(), threading.Event(), FutureLog.finish

    def finishing(self: FutureLog, *what: Any) -> None:
        begun.set()
        finished.wait(WAIT_S)
        finish(self, *what)

    monkeypatch.setattr(FutureLog, "finish", finishing)
    assert await move(both, topic, target.path) == 0
    await until(begun.is_set)
    assert await described(both) == {source.path: [("t-0", 0, False)], target.path: [("t-0", 0, True)]}
    finished.set()
    await arrived(both, topic, target)
    assert await described(both) == {source.path: [], target.path: [("t-0", 0, False)]}


async def test_moving_it_to_where_it_is_ends_a_move(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    source = home(both, topic)
    target = await on_its_way(both, topic)
    assert await move(both, topic, source.path) == 0
    await until(lambda: names(target) == [])
    assert await described(both) == {source.path: [("t-0", 0, False)], target.path: []}
    await throttle(both, {})
    assert await move(both, topic, target.path) == 0  # and it may move again
    await arrived(both, topic, target)
    assert await stored(both, topic) == numbers(range(30))


async def test_it_moves_there_and_back_and_a_start_knows_which_is_the_newest(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(4):
        await both.append(topic, values(number))
        target = other(both, topic)
        assert await move(both, topic, target.path) == 0
        await arrived(both, topic, target)
        await until(lambda: names(other(both, topic)) == [])
    await again(both, topic)
    assert await stored(both, topic) == numbers(range(4))


async def test_the_disk_that_it_left_says_no_more_that_it_is_durable(both: StorageCluster) -> None:
    topic = await both.topic("t")
    await both.append(topic, values(0))
    source, target = home(both, topic), other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    found = partition_of(both, topic)
    assert found.sync is target.sync
    await target.sync.drain()
    found.log.epochs.assign(3, 1)  # something to sync
    source.sync.request_round(found)  # by whoever held on to where it was
    source.sync.start_round()
    assert not source.sync.running
    await target.sync.drain()
    assert found.log.sync_targets() is None


async def test_errors_are_kafkas(both: StorageCluster) -> None:
    topic = await both.topic("t")
    one, two = disks(both)
    assert await move(both, topic, "/not/there") == ErrorCode.LOG_DIR_NOT_FOUND
    assert await move(both, bytes(16), "/not/there") == ErrorCode.LOG_DIR_NOT_FOUND
    assert await move(both, bytes(16), one.path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await move(both, topic, one.path, index=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    target = other(both, topic)
    target.sync.fail(OSError("broken"))
    assert await move(both, topic, target.path) == ErrorCode.KAFKA_STORAGE_ERROR
    home(both, topic).sync.fail(OSError("broken too"))
    for disk in (one, two):
        assert await move(both, topic, disk.path) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("which", [0, 1])
async def test_a_replica_that_is_not_here_yet_is_made_where_it_was_asked_for(both: StorageCluster, which: int) -> None:
    topic = (77).to_bytes(16, "big")
    elsewhere = PartitionState((), -1, -1, 0, 0, (InSync(2, 1),))
    await both.write(keys.partition(topic, 0), encode(elsewhere))
    await both.topic("other")
    await both.write(keys.topic("t"), encode(Topic("t", topic.hex(), 1)))
    target = disks(both)[which]
    assert both.node is not None
    await until(lambda: "t" in both.node.partitions.image.topics)  # type: ignore[union-attr]
    assert await move(both, topic, target.path) == ErrorCode.REPLICA_NOT_AVAILABLE
    await both.state(topic, epoch=1)
    await both.leads(topic, 0, 1)
    assert home(both, topic) is target


@pytest.mark.parametrize("which", [0, 1])
async def test_a_replica_that_is_being_made_is_waited_for(both: StorageCluster, which: int) -> None:
    """A topic is made, and its replica moved at once: Kafka's broker has it by then."""
    topic = (77).to_bytes(16, "big")
    await both.write(keys.topic("t"), encode(Topic("t", topic.hex(), 1)))
    target = disks(both)[which]
    await both.state(topic, epoch=1)
    assert both.node is not None
    await until(lambda: both.node.partitions.image.partition(topic, 0) is not None)  # type: ignore[union-attr]
    assert (topic, 0) not in both.node.opened.open_logs
    assert await move(both, topic, target.path) == 0
    await until(lambda: home(both, topic) is target)


async def test_a_topic_that_is_deleted_on_its_way_leaves_nothing_anywhere(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    await on_its_way(both, topic)
    await both.write(keys.topic("t"), None)
    await until(lambda: [names(disk) for disk in disks(both)] == [[], []])
    assert moves(both).in_progress() == []
    again = await both.topic("t")
    await both.append(again, values(1))
    assert await stored(both, again) == [b"1"]


async def test_records_that_are_deleted_on_its_way_stay_deleted(both: StorageCluster) -> None:
    topic = await both.topic("t", internal_segment_bytes="500")
    for number in range(30):
        await both.append(topic, values(number))
    target = await on_its_way(both, topic)
    assert (await both.delete_records(topic, 20)).error == 0
    await throttle(both, {})
    await arrived(both, topic, target)
    assert partition_of(both, topic).log_start_offset == 20
    await again(both, topic)
    assert partition_of(both, topic).log_start_offset == 20
    assert await stored(both, topic, 20) == numbers(range(20, 30))


async def test_a_target_that_fails_leaves_the_replica_where_it_is(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    source = home(both, topic)
    target = await on_its_way(both, topic)
    target.sync.fail(OSError("broken"))
    await throttle(both, {})
    await until(lambda: moves(both).in_progress() == [])
    assert home(both, topic) is source
    assert (await both.append(topic, values(30))).error == 0
    assert await stored(both, topic) == numbers(range(31))


async def test_a_source_that_fails_takes_the_replica_along_and_the_copy_is_no_replica(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    source = home(both, topic)
    target = await on_its_way(both, topic)
    source.sync.fail(OSError("broken"))
    await throttle(both, {})
    await until(lambda: moves(both).in_progress() == [])
    await until(lambda: names(target) == [])
    assert (await both.append(topic, values(30))).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_move_that_a_stop_interrupts_goes_on_after_the_start(both: StorageCluster) -> None:
    topic = await both.topic("t")
    for number in range(30):
        await both.append(topic, values(number))
    target = await on_its_way(both, topic)
    await both.stop()
    assert [name.endswith("-future") for name in names(target)] == [True]
    await both.start()
    await both.state(topic, epoch=1)
    await both.leads(topic, 0, 1)
    await until(lambda: home(both, topic).path == target.path)
    assert await stored(both, topic) == numbers(range(30))


async def test_readers_that_have_a_file_go_on_and_nobody_begins_to_read_the_old_ones(both: StorageCluster) -> None:
    topic = await both.topic("t")
    sent = values(0, 20)
    await both.append(topic, sent)
    (found,) = (await both.fetch(topic, 0)).ranges
    old = partition_of(both, topic).log.segments[0].file
    descriptor = old.handle
    target = other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    await until(lambda: names(other(both, topic)) == [])
    assert both.fs.pread(descriptor.fd, found.length, found.position)[16:] == sent[16:]
    assert both.client is not None
    reply = await both.client.call(OPEN_FILE, OpenFile(found.file_id), timeout_s=WAIT_S)
    assert not unpack(OpenFileReply, reply.body).exists


async def test_a_waiting_consumer_hears_of_what_comes_after_the_move(both: StorageCluster) -> None:
    topic = await both.topic("t")
    await both.append(topic, values(0))
    waiting = both.fetching(topic, 1, inline=True, max_wait_ms=5000)
    target = other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    await both.append(topic, values(1))
    reply = await waiting
    if fetched(reply)[0].error:  # it was asked again while nobody was answered
        reply = await both.fetching(topic, 1, inline=True)
    assert [record.value for record in iter_records(reply.payload)] == [b"1"]


async def test_a_compacted_log_is_not_cleaned_on_its_way_and_is_when_it_is_there(both: StorageCluster) -> None:
    configs: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "internal_segment_bytes": "400"}
    topic = await both.topic("t", **configs)

    async def write(count: int) -> None:
        for number in range(count):
            await both.append(topic, bytes(build_batch([Record(b"k%d" % (number % 3), b"v" * 40, 1_700_000_000_000)])))

    assert both.node is not None
    cleaning = both.node.opened.background.cleaning
    await write(30)
    await cleaning.check()
    await write(30)
    end = partition_of(both, topic).log_end_offset
    target = await on_its_way(both, topic)
    size = partition_of(both, topic).log.size
    await cleaning.check()
    assert partition_of(both, topic).log.size == size
    await throttle(both, {"log.segment.delete.delay.ms": "50"})
    await arrived(both, topic, target)
    assert (partition_of(both, topic).log.size, partition_of(both, topic).log_end_offset) == (size, end)
    assert 0 < target.cleaned_offsets[topic, 0] < end
    await cleaning.check()
    assert partition_of(both, topic).log.size < size
    await again(both, topic)
    assert partition_of(both, topic).log_end_offset == end
    assert (await both.append(topic, bytes(build_batch([Record(b"k", b"v", 1_700_000_000_000)])))).base_offset == end


async def test_a_name_that_cannot_be_made_durable_leaves_the_replica_where_it_is_for_every_later_start(
    both: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await both.topic("t")
    for number in range(3):
        await both.append(topic, values(number))
    source, target = home(both, topic), other(both, topic)
    sync, rename = both.fs.fsync_directory, both.fs.rename
    renamed: list[str] = []

    def note(before: str, after: str) -> None:
        rename(before, after)
        if before.endswith("-future"):
            renamed.append(after)

    def fail(path: str) -> None:
        if renamed and path == target.path:
            raise OSError(errno.EIO, "broken")
        sync(path)

    monkeypatch.setattr(both.fs, "rename", note)
    monkeypatch.setattr(both.fs, "fsync_directory", fail)
    assert await move(both, topic, target.path) == 0
    await until(lambda: target.sync.failed)
    await until(lambda: moves(both).in_progress() == [])
    assert home(both, topic) is source
    assert (await both.append(topic, values(3))).error == 0
    await both.stop()
    monkeypatch.undo()
    if not (Path(target.path) / "t-0").exists():  # what the disk may have kept of the two names, all the same
        (found,) = names(target)
        (Path(target.path) / found).rename(Path(target.path) / "t-0")
    give_back(target.path)
    await both.start()
    await both.state(topic, epoch=1)
    await both.leads(topic, 0, 1)
    assert home(both, topic).path == source.path
    assert await stored(both, topic) == numbers(range(4))
    assert [name.endswith("-stray") for name in names(disks(both)[1] if target.path.endswith("two") else disks(both)[0])] == [
        True
    ]


class Stepwise(OneBadDisk):
    """Before each change of a name, what a kill would leave is copied."""

    def __init__(self) -> None:
        super().__init__()
        self.root = ""
        self.images: list[Path] = []
        self._lock = threading.Lock()

    def _image(self) -> None:
        if self.root:
            image = Path(f"{self.root}-image-{len(self.images)}")
            shutil.copytree(self.root, image)
            self.images.append(image)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._image()
            super().rename(source, target)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._image()
            super().unlink(path)

    def remove_tree(self, path: str) -> None:
        with self._lock:
            self._image()
            super().remove_tree(path)


def replace_tree(image: Path, path: str) -> None:
    shutil.rmtree(path)
    image.rename(path)


async def test_a_kill_at_any_step_leaves_one_replica_and_all_of_it(tmp_path: Path, short_dir: Path) -> None:
    fs = Stepwise()
    (tmp_path / "node").mkdir()
    async with storage_cluster(tmp_path / "node", short_dir, fs) as running:
        controller = await NamingController(running).elect(short_dir)
        await with_two_directories(running)
        topic = await running.topic("t", internal_segment_bytes="500")
        for number in range(20):
            await running.append(topic, values(number))
        assert (await running.delete_records(topic, 5)).error == 0
        target, everywhere = other(running, topic), disks(running)
        fs.root = running.config.data_dir
        assert await move(running, topic, target.path) == 0
        await arrived(running, topic, target)
        assert (await running.append(topic, values(20))).error == 0
        await until(lambda: names(other(running, topic)) == [])
        fs.root = ""
        assert len(fs.images) > 10
        found: set[tuple[str, int]] = set()
        await running.stop()
        for number, image in enumerate(fs.images):
            replace_tree(image, running.config.data_dir)
            await running.start()
            await running.state(topic, epoch=number + 1)
            await running.leads(topic, 0, number + 1)
            assert partition_of(running, topic).log_start_offset == 5
            here = await stored(running, topic, 5)
            assert here in (numbers(range(5, 20)), numbers(range(5, 21)))
            found.add((home(running, topic).path, len(here)))
            await until(lambda: moves(running).in_progress() == [])
            assert await stored(running, topic, 5) == here
            await until(lambda: [disk for disk in disks(running) if "t-0" in names(disk)] == [home(running, topic)])
            await running.stop()
        assert {path for path, _ in found} == {disk.path for disk in everywhere}
        assert {count for _, count in found} == {15, 16}
        await controller.close()


# -- replicas that follow ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def pair(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    """Two nodes with two log directories each."""
    async with nodes(tmp_path, short_dir, (1, 2)) as running:
        controller = await NamingController(running[1]).elect(short_dir)
        for node in running.by_id.values():
            await with_two_directories(node)
        yield running
        await controller.close()


@pytest.mark.parametrize("node", [1, 2])
async def test_leader_and_follower_move_while_the_leader_is_written_to(pair: Nodes, node: int) -> None:
    topic = await pair.topic("t", leader=1, internal_segment_bytes="20000")
    async with producing(pair[1], topic) as acknowledged:
        for _ in range(3):
            target = other(pair[node], topic)
            enough = len(acknowledged) + 100
            await until(partial(more_than, acknowledged, enough))
            assert await move(pair[node], topic, target.path) == 0
            await arrived(pair[node], topic, target)
    await pair.alike(topic)
    await pair.lead(topic, 2)
    assert sorted(await stored(pair[2], topic)) == sorted(acknowledged)


async def test_leaders_change_while_replicas_move_and_what_is_cut_is_cut_from_the_copy(pair: Nodes) -> None:
    topic = await pair.topic("t", leader=1)
    for number in range(10):
        assert (await pair[1].append(topic, values(number))).error == 0
    await pair.alike(topic)
    await pair.lead(topic, 2, isr=[2])
    await pair[1].stop()
    for number in range(10, 20):  # on node 2 only
        assert (await pair[2].append(topic, values(number))).error == 0
    target = other(pair[2], topic)
    await pair[2].write(keys.config("broker", "2"), encode(ConfigOverrides(FOREVER)))
    assert await move(pair[2], topic, target.path) == 0
    await until(lambda: any(move.copy is not None and move.copy.end_offset > 0 for move in moves(pair[2]).in_progress()))
    await pair[2].write(keys.config("broker", "2"), encode(ConfigOverrides({THROTTLE: "100"})))
    await until(lambda: not moves(pair[2]).in_progress() or moves(pair[2]).in_progress()[0].lag < 10)
    await pair[1].start()
    await pair.lead(topic, 1, isr=[1])  # uncleanly: what node 1 does not have goes
    for number in range(30, 35):
        assert (await pair[1].append(topic, values(number))).error == 0
    await pair[2].write(keys.config("broker", "2"), encode(ConfigOverrides({})))
    await arrived(pair[2], topic, target)
    await pair.alike(topic)
    await pair.lead(topic, 2)
    assert await stored(pair[2], topic) == numbers(range(10), range(30, 35))


# -- slow disks -------------------------------------------------------------------------------------------------------------


async def test_a_target_that_is_too_slow_holds_up_appends_for_a_moment_only(
    both: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.moving.switching.HELD_S_MAX", 0.1)
    topic = await both.topic("t")
    for number in range(10):
        await both.append(topic, values(number))
    source, target = home(both, topic), other(both, topic)
    slow, finish = threading.Event(), FutureLog.finish
    begun = threading.Event()

    def finishing(self: FutureLog, *what: Any) -> None:
        begun.set()
        slow.wait(WAIT_S)
        finish(self, *what)

    monkeypatch.setattr(FutureLog, "finish", finishing)
    assert await move(both, topic, target.path) == 0
    await until(begun.is_set)
    assert (await both.append(topic, values(10))).error == 0
    assert home(both, topic) is source
    slow.set()
    await arrived(both, topic, target)
    assert await stored(both, topic) == numbers(range(11))


async def test_a_target_without_room_is_tried_again_from_where_it_was_full(
    both: StorageCluster, disk: OneBadDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.moving.moves.RETRY_S", 0.05)
    topic = await both.topic("t", internal_segment_bytes="500")
    for number in range(30):
        await both.append(topic, values(number))
    target = other(both, topic)
    made, room = disk.open_append, [3]

    def full(path: str, *, create: bool) -> int:
        if create and "-future/" in path and path.endswith(".log"):
            room[0] -= 1
            if room[0] < 0:
                raise OSError(errno.ENOSPC, "no room")
        return made(path, create=create)

    monkeypatch.setattr(disk, "open_append", full)
    assert await move(both, topic, target.path) == 0
    await until(lambda: room[0] < -1)
    (moving,) = moves(both).in_progress()
    assert moving.copy is not None
    assert moving.copy.end_offset > 5
    assert (await both.append(topic, values(30))).error == 0
    room[0] = 100
    await arrived(both, topic, target)
    assert room[0] > 80  # it went on
    assert await stored(both, topic) == numbers(range(31))
