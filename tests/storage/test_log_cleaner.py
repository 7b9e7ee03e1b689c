"""A running node compacts what asks for it, at the right time and no further than it may, and no failure stops the rest."""

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.commitlog.checkpoints.offset_checkpoint import parse_offsets
from libs.commitlog.cleaner import cleaning as cleaner
from libs.commitlog.cleaner.job import CleanJob, CleanResult
from libs.commitlog.cleaner.pace import JobTime
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.page_cache import must_not_wait
from libs.commitlog.model.errors import LogDamaged, SyncFailed
from libs.commitlog.opening.aborted_transactions import AbortedTransactions
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS
from libs.commitlog.producers.transaction_index import AbortedTransaction
from libs.rpc.contracts.storage import OPEN_FILE, OpenFile, OpenFileReply
from libs.rpc.messages.schema import unpack
from libs.runtime.children import ChildDied
from libs.telemetry.metrics import Metrics
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.storage.cleanup import compaction
from services.storage.cleanup.cleaner_meters import CleanerMeters
from services.storage.cleanup.log_cleaner import LogCleaner
from services.storage.partition.partition import Partition
from tests.commitlog.cleaned import batches_of
from tests.storage.cluster import WAIT_S, StorageCluster, directory, partition_of
from tests.storage.held_children import HeldChildren
from tests.storage.set_clock import SetClock
from tests.support.inline_children import InlineChildren
from tests.support.polling import until

HOUR = 3_600_000
KEYS = 5


async def make(cluster: StorageCluster, name: str, **configs: Any) -> bytes:
    defaults = {"internal_segment_bytes": "400", "cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    return await cluster.topic(name, **{**defaults, **configs})


async def fill(
    cluster: StorageCluster, clock: SetClock, topic: bytes, count: int = 30, *, value: bytes | None = b"v" * 40
) -> None:
    for number in range(count):
        record = Record(b"k%d" % (number % KEYS), value, clock.now_ms)
        assert (await cluster.append(topic, bytes(build_batch([record])))).error == 0


def cleaning(cluster: StorageCluster) -> LogCleaner:
    assert cluster.node is not None
    return cluster.node.opened.background.cleaning


def records(cluster: StorageCluster, topic: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for batch in batches_of(partition_of(cluster, topic).log) for r in iter_records(batch)]


def offsets(cluster: StorageCluster, topic: bytes) -> list[int]:
    return [offset for offset, _, _ in records(cluster, topic)]


def latest_before(cluster: StorageCluster, topic: bytes, count: int, end: int) -> list[int]:
    """The latest of each key before `end`, and all from there on."""
    return [n for n in range(count) if n >= end or not any(m % KEYS == n % KEYS for m in range(n + 1, end))]


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


def put(path: str, content: bytes | bytearray) -> None:
    Path(path).write_bytes(content)


def checkpoint(cluster: StorageCluster) -> dict[tuple[str, int], int]:
    path = Path(cluster.config.directories[0]) / CLEANED_OFFSETS
    return parse_offsets(path.read_bytes(), str(path))


def metric(cluster: StorageCluster, name: str, **labels: str) -> float:
    assert cluster.node is not None
    value = cluster.node.environment.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


async def test_of_each_key_the_latest_stays_and_the_log_goes_on(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "compacted")
    await fill(cluster, clock, topic)
    end = partition_of(cluster, topic).log.active.base_offset
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == latest_before(cluster, topic, 30, end)
    assert checkpoint(cluster) == {("compacted", 0): end}
    path = directory(cluster, "compacted")
    await until(lambda: not [name for name in os.listdir(path) if name.endswith((".deleted", ".swap", ".cleaned"))])
    found = await cluster.fetch(topic, 0)
    assert (found.error, found.log_start_offset, found.high_watermark) == (0, 0, 30)
    await fill(cluster, clock, topic, 1)
    assert offsets(cluster, topic)[-1] == 30
    assert metric(cluster, "penstock_storage_cleaner_runs_total") == 1
    assert metric(cluster, "kafka_log_logcleaner_io_ratio") == 1.0
    assert metric(cluster, "penstock_storage_cleaner_kept_records_total") < metric(
        cluster, "penstock_storage_cleaner_read_records_total"
    )


def test_the_time_in_which_a_run_waits_for_its_limit_is_no_io() -> None:
    metrics = Metrics("storage")
    meters = CleanerMeters(metrics, SystemClock())
    result = CleanResult((), 0, 10, 10, 1, 1, 1, seconds=20.0, waited_seconds=15.0)
    assert metrics.registry.get_sample_value("kafka_log_logcleaner_io_ratio") == 1.0
    meters.finished("t-0", result)
    assert metrics.registry.get_sample_value("kafka_log_logcleaner_io_ratio") == 0.25


async def test_a_restart_finds_what_was_compacted_and_where(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "restarted")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    before = records(cluster, topic)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert records(cluster, topic) == before
    await cleaning(cluster).check()
    assert metric(cluster, "penstock_storage_cleaner_runs_total") == 0
    assert records(cluster, topic) == before


async def test_another_generation_replaces_the_one_before(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "generations")
    for _ in range(3):
        await fill(cluster, clock, topic)
        await cleaning(cluster).check()
    assert offsets(cluster, topic) == latest_before(cluster, topic, 90, partition_of(cluster, topic).log.active.base_offset)


async def test_tombstones_go_when_their_time_has_come(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "removed", delete_retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    await fill(cluster, clock, topic, KEYS, value=None)
    await fill(cluster, clock, topic, 8)  # rolls; keys 3 and 4 stay deleted for a while
    partition_of(cluster, topic).log.roll()
    await cleaning(cluster).check()
    before = [key for _, key, value in records(cluster, topic) if value is None]
    assert before == []  # all were written again
    await fill(cluster, clock, topic, KEYS, value=None)
    partition_of(cluster, topic).log.roll()
    await cleaning(cluster).check()
    assert [key for _, key, value in records(cluster, topic)] == [b"k%d" % key for key in range(KEYS)]
    clock.now_ms += HOUR + 1
    await fill(cluster, clock, topic, 1)
    partition_of(cluster, topic).log.roll()
    await cleaning(cluster).check()
    assert [key for _, key, value in records(cluster, topic)] == [b"k0"]


async def test_a_topic_that_is_not_dirty_enough_is_left(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "clean", min_cleanable_dirty_ratio="1.0")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == list(range(30))
    await cluster.write(
        keys.config("topic", "clean"), encode(ConfigOverrides({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}))
    )
    await until(lambda: partition_of(cluster, topic).config.min_cleanable_dirty_ratio == 0.5)
    await cleaning(cluster).check()
    assert len(offsets(cluster, topic)) < 30


async def test_a_record_is_not_compacted_before_its_time(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "young", min_compaction_lag_ms=str(HOUR))
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == list(range(30))
    clock.now_ms += HOUR + 1
    await cleaning(cluster).check()
    assert len(offsets(cluster, topic)) < 30


async def test_a_record_does_not_wait_for_longer_than_its_time(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "late", max_compaction_lag_ms=str(HOUR), min_cleanable_dirty_ratio="1.0")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == list(range(30))
    clock.now_ms += HOUR + 1
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == latest_before(cluster, topic, 30, 30)  # the active segment too: nobody appends to it


async def test_an_appended_to_segment_is_rolled_by_the_compaction_lag(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "rolled", max_compaction_lag_ms=str(HOUR), internal_segment_bytes="1000000")
    await fill(cluster, clock, topic, 2)
    clock.now_ms += HOUR + 1
    await fill(cluster, clock, topic, 1)
    assert len(partition_of(cluster, topic).log.segments) == 2


async def test_nothing_past_the_high_watermark_is_compacted(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-13194."""
    topic = await make(cluster, "uncommitted")
    await fill(cluster, clock, topic)
    one = partition_of(cluster, topic)
    limit = one.log.segments[3].base_offset
    monkeypatch.setattr(Partition, "last_stable_offset", property(lambda self: limit + 1))
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == latest_before(cluster, topic, 30, limit)
    assert list(checkpoint(cluster).values()) == [limit]


async def test_only_compacted_topics_are(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "deleted", cleanup_policy="delete")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == list(range(30))


async def test_retention_goes_on_where_both_are_asked_for(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "both", cleanup_policy="compact,delete", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    clock.now_ms += 2 * HOUR
    await fill(cluster, clock, topic, 8)
    assert cluster.node is not None
    await cluster.node.opened.background.retention.check()
    assert offsets(cluster, topic)[0] == partition_of(cluster, topic).log.log_start_offset >= 20
    await cleaning(cluster).check()
    assert offsets(cluster, topic)[-1] == 37


async def test_the_cleaner_can_be_turned_off(cluster: StorageCluster, clock: SetClock) -> None:
    values = {"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "1"}
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides(values)))
    assert cluster.node is not None
    assert not cleaning(cluster)._is_enabled()
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides({"log.cleaner.backoff.ms": "1"})))
    topic = await make(cluster, "by-itself")
    await fill(cluster, clock, topic)
    task = asyncio.create_task(cleaning(cluster).run())
    await until(lambda: len(offsets(cluster, topic)) < 30)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """The cleaner's errors, by the name of the partition's directory."""
    failures: dict[str, Exception] = {}

    def fail(job: CleanJob, report: Callable[[object], None]) -> object:
        error = failures.get(job.directory.rpartition("/")[2])
        if error is not None:
            raise error
        return cleaner.clean(job, report)

    monkeypatch.setattr(compaction, "clean", fail)
    return failures


async def test_a_partition_that_fails_is_tried_again_later_and_holds_up_nobody(
    cluster: StorageCluster, clock: SetClock, failing: dict[str, Exception]
) -> None:
    bad, good = await make(cluster, "bad"), await make(cluster, "good")
    await fill(cluster, clock, bad)
    await fill(cluster, clock, good)
    failing["bad-0"] = ChildDied("killed")
    await cleaning(cluster).check()
    assert (len(offsets(cluster, bad)), len(offsets(cluster, good)) < 30) == (30, True)
    assert metric(cluster, "penstock_storage_cleaner_failures_total") == 1
    await cleaning(cluster).check()
    assert metric(cluster, "penstock_storage_cleaner_failures_total") == 1  # left alone for a while
    path = cluster.config.directories[0]
    assert metric(cluster, "kafka_log_logcleanermanager_uncleanable_partitions", log_directory=path) == 1
    failing.clear()
    trouble = cleaning(cluster).uncleanable.troubles[partition_of(cluster, bad)]
    assert trouble.until is not None
    trouble.until = 0.0
    await cleaning(cluster).check()
    assert len(offsets(cluster, bad)) < 30
    assert metric(cluster, "kafka_log_logcleanermanager_uncleanable_partitions", log_directory=path) == 0


async def test_a_sync_that_fails_in_the_child_retires_the_directory(
    cluster: StorageCluster, clock: SetClock, failing: dict[str, Exception]
) -> None:
    """The kernel names an error to one descriptor: a later sync would report that all is well."""
    topic = await make(cluster, "bad")
    await fill(cluster, clock, topic)
    failing["bad-0"] = SyncFailed(errno.EIO, os.strerror(errno.EIO))
    await cleaning(cluster).check()
    assert partition_of(cluster, topic).sync.failed
    await until(lambda: (Path(cluster.config.directories[0]) / ".retired").exists())
    assert (
        await cluster.append(topic, bytes(build_batch([Record(b"k", b"v", clock.now_ms)])))
    ).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_free_thread_does_not_wait_for_those_that_are_busy(cluster: StorageCluster, clock: SetClock) -> None:
    await cluster.stop()
    cluster.config = replace(cluster.config, broker_configs=("log.cleaner.threads=2", "log.cleaner.backoff.ms=1"))
    held = HeldChildren()
    cluster.children = lambda name, count, nice: held if nice else InlineChildren()
    await cluster.start()
    for number, name in enumerate(("first", "second"), 1):
        await fill(cluster, clock, await make(cluster, name))
        await until(lambda number=number: len(held.jobs) == number)  # type: ignore[misc]
    await cluster.stop()


async def first_job(cluster: StorageCluster, clock: SetClock, *broker_configs: str, **configs: Any) -> CleanJob:
    """The first job that a cleaner's child gets."""
    await cluster.stop()
    cluster.config = replace(cluster.config, broker_configs=("log.cleaner.backoff.ms=1", *broker_configs))
    held = HeldChildren()
    cluster.children = lambda name, count, nice: held if nice else InlineChildren()
    await cluster.start()
    topic = await make(cluster, "given", **configs)
    await fill(cluster, clock, topic)
    await until(lambda: held.jobs)
    found = held.jobs[0].argument
    assert isinstance(found, CleanJob)
    return found


async def test_those_that_clean_at_once_share_what_all_of_them_may_take(cluster: StorageCluster, clock: SetClock) -> None:
    limits = "log.cleaner.io.max.bytes.per.second=9000", "log.cleaner.dedupe.buffer.size=6000000"
    job = await first_job(cluster, clock, "log.cleaner.threads=3", *limits)
    assert (job.bytes_per_second, job.map_bytes) == (3000.0, 2_000_000)


@pytest.mark.parametrize("rate", ["0", "-5", "1.7976931348623157E308"])
async def test_a_rate_of_nothing_or_less_limits_nothing(cluster: StorageCluster, clock: SetClock, rate: str) -> None:
    job = await first_job(cluster, clock, f"log.cleaner.io.max.bytes.per.second={rate}")
    assert job.bytes_per_second <= 0
    moments: list[float] = []
    cleaner.clean_with(OsFileSystem(), job, lambda _: None, JobTime(lambda: 0.0, moments.append))
    assert not moments


async def test_a_cleaner_child_gets_the_time_for_which_tombstones_stay(cluster: StorageCluster, clock: SetClock) -> None:
    job = await first_job(cluster, clock, delete_retention_ms="12345")
    assert job.delete_retention_ms == 12345


async def test_the_event_loop_does_not_wait_for_indexes_of_transactions(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "compacted")
    await fill(cluster, clock, topic)
    found: list[bool] = []

    def between(self: AbortedTransactions, *_: object) -> list[AbortedTransaction]:
        found.append(must_not_wait())
        return []

    monkeypatch.setattr(AbortedTransactions, "between", between)
    await cleaning(cluster).check()
    assert found == [True]


async def test_a_directory_whose_sync_hangs_is_not_cleaned(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "hanging")
    await fill(cluster, clock, topic)
    sync = partition_of(cluster, topic).sync
    await sync.wait_for_round()
    sync.stalled = True
    await cleaning(cluster).check()
    assert offsets(cluster, topic) == list(range(30))
    sync.stalled = False
    await cleaning(cluster).check()
    assert len(offsets(cluster, topic)) < 30


async def test_a_damaged_log_is_left_alone_until_it_is_opened_again(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "damaged")
    await fill(cluster, clock, topic)
    path = partition_of(cluster, topic).log.segments[0].file.path
    original = content_of(path)
    damaged = bytearray(original)
    damaged[70] ^= 1
    put(path, damaged)
    await cleaning(cluster).check()
    trouble = cleaning(cluster).uncleanable.troubles[partition_of(cluster, topic)]
    assert trouble.until is None
    assert content_of(path) == damaged
    put(path, original)
    await cleaning(cluster).check()
    assert len(offsets(cluster, topic)) == 30
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    await cleaning(cluster).check()
    assert len(offsets(cluster, topic)) < 30


async def test_a_batch_that_is_too_large_to_open_is_named_and_all_else_is_compacted(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was taken for damage, and the log grew for ever."""
    monkeypatch.setattr("libs.commitlog.cleaner.source.DECOMPRESSED_BYTES_MAX", 1 << 20)
    topic = await make(cluster, "large")
    await fill(cluster, clock, topic, 10)
    large = build_batch([Record(b"k0", bytes(2 << 20), clock.now_ms)], codec=4)
    assert (await cluster.append(topic, bytes(large))).error == 0
    await fill(cluster, clock, topic, 20)
    await cleaning(cluster).check()
    kept = offsets(cluster, topic)
    assert 10 in kept
    assert len(kept) < 20
    assert metric(cluster, "penstock_storage_cleaner_unopened_batches") == 1
    assert metric(cluster, "penstock_storage_cleaner_failures_total") == 0
    (line,) = [record for record in caplog.records if record.message == "batches cannot be opened for compaction"]
    told = line.__dict__["fields"]
    assert (str(told["partition"]), told["batches"], told["first_offset"]) == ("large-0", 1, 10)
    await cluster.write(keys.topic("large"), None)
    await until(lambda: not directory(cluster, "large").exists())
    await cleaning(cluster).check()
    assert metric(cluster, "penstock_storage_cleaner_unopened_batches") == 0


async def test_cleaning_goes_on_after_a_truncation_that_failed(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-3123."""
    cut, other = await make(cluster, "cut"), await make(cluster, "other")
    await fill(cluster, clock, cut)
    await fill(cluster, clock, other)
    log = partition_of(cluster, cut).log

    def refuse(offset: int) -> None:
        raise OSError(5, "no")

    monkeypatch.setattr(log, "_cut", refuse)
    with pytest.raises(Exception, match="half-way"):
        log.truncate_to(20)
    await cleaning(cluster).check()
    assert len(offsets(cluster, other)) < 30
    assert len(offsets(cluster, cut)) == 30


async def test_records_written_after_a_truncation_are_dirty_again(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "cut-back")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    one = partition_of(cluster, topic)
    one.log.truncate_to(12)
    one.next_offset = 12
    assert cluster.node is not None
    (disk,) = cluster.node.opened.disks.all
    assert disk.cleaned_offsets[topic, 0] > 12
    await cleaning(cluster).check()
    assert disk.cleaned_offsets[topic, 0] == 12
    assert list(checkpoint(cluster).values()) == [12]


async def test_a_log_that_is_cut_while_it_is_read_is_not_taken_for_damaged(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "cut-under-way")
    await fill(cluster, clock, topic)
    one = partition_of(cluster, topic)

    class CutBefore:
        def run(
            self, work: Callable[..., object], argument: CleanJob, *_: object, quiet_s: float | None = None
        ) -> "asyncio.Future[object]":
            one.log.truncate_to(1)
            one.next_offset = 1
            done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            with pytest.raises(LogDamaged) as damaged:
                work(argument, lambda _: None)
            done.set_exception(damaged.value)
            return done

        def close(self) -> None: ...

    monkeypatch.setattr(cleaning(cluster), "_make_children", lambda count: CutBefore())
    await cleaning(cluster).check()
    assert metric(cluster, "penstock_storage_cleaner_dropped_total") == 1
    assert cleaning(cluster).uncleanable.troubles[one].until is not None


async def test_a_deleted_topic_leaves_no_checkpoint(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "gone")
    await fill(cluster, clock, topic)
    await cleaning(cluster).check()
    assert ("gone", 0) in checkpoint(cluster)
    await cluster.write(keys.topic("gone"), None)
    await until(lambda: not directory(cluster, "gone").exists())
    await cleaning(cluster).check()
    assert checkpoint(cluster) == {}


async def test_a_topic_that_is_deleted_while_it_is_cleaned_is_dropped(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "going")
    await fill(cluster, clock, topic)
    never: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    asked = asyncio.Event()

    class Slow:
        def run(self, *_: object, quiet_s: float | None = None) -> "asyncio.Future[object]":
            asked.set()
            return never

        def close(self) -> None:
            never.cancel()

    monkeypatch.setattr(cleaning(cluster), "_make_children", lambda count: Slow())
    task = asyncio.create_task(cleaning(cluster).check())
    await until(lambda: cleaning(cluster).runs)
    await cluster.write(keys.topic("going"), None)
    await task
    assert never.cancelled()
    assert metric(cluster, "penstock_storage_cleaner_dropped_total") == 1
    await until(lambda: not directory(cluster, "going").exists())


async def test_a_stop_ends_what_runs(cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await make(cluster, "stopped")
    await fill(cluster, clock, topic)
    never: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    class Slow:
        def run(self, *_: object, quiet_s: float | None = None) -> "asyncio.Future[object]":
            begun.set()
            return never

        def close(self) -> None:
            pass

    monkeypatch.setattr(cleaning(cluster), "_make_children", lambda count: Slow())
    task = asyncio.create_task(cleaning(cluster).check())
    await asyncio.wait_for(begun.wait(), WAIT_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await cluster.stop()
    assert never.cancelled()


async def test_a_reader_that_has_a_file_open_reads_on(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "read")
    await fill(cluster, clock, topic)
    found = await cluster.fetch(topic, 0)
    (piece,) = found.ranges
    assert cluster.client is not None
    response = await cluster.client.call(OPEN_FILE, OpenFile(piece.file_id), timeout_s=60)
    assert unpack(OpenFileReply, response.body).exists
    fd = response.descriptors[0]
    before = os.pread(fd, piece.length, piece.position)
    await cleaning(cluster).check()
    await until(lambda: not [name for name in os.listdir(directory(cluster, "read")) if name.endswith(".deleted")])
    assert os.pread(fd, piece.length, piece.position) == before
    os.close(fd)
    response = await cluster.client.call(OPEN_FILE, OpenFile(piece.file_id), timeout_s=60)
    assert not unpack(OpenFileReply, response.body).exists
    again = await cluster.fetch(topic, 0)
    assert (again.error, again.ranges[0].file_id != piece.file_id) == (0, True)


async def test_the_debug_page_tells(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "told")
    await fill(cluster, clock, topic)
    end = partition_of(cluster, topic).log.active.base_offset
    await cleaning(cluster).check()
    assert cluster.node is not None
    page: Any = cluster.node.debug()["cleaner"]()
    assert page["running"] == []
    assert page["left_alone"] == {}
    assert page["cleaned_offsets"] == {"told-0": end}
