"""Full disks: what a node says of them, in metrics, in its readiness and in its log, before, during and after."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, InSync, Member, Topic
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS
from libs.wire.errors import ErrorCode
from services.storage.disks.disk_space import EVERY_S, STALE_S
from services.storage.partition.disk_room import LINES_S, QUIET_S, QUIET_S_MAX, ROOM_BYTES, DiskRoom
from tests.storage.cluster import NODE_ID, StorageCluster, appended, batch
from tests.storage.fake_controller import FakeController
from tests.storage.fake_follower import INCARNATION, image, replicated_state, replicated_topic, show
from tests.storage.fake_leader import FakeLeader
from tests.storage.following import caught_up, followed, log_of
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until
from tests.support.timers import FakeTimers

GIB = 1 << 30
FULL = LogWriteError("no room", fatal=False, number=errno.ENOSPC)


class SizedDisk(HeldDisk):
    """A disk of a size that the test gives it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = (100 * GIB, 50 * GIB)
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0

    def release(self) -> None:
        super().release()
        self.answers.set()

    def space(self, path: str) -> tuple[int, int]:
        self.asked += 1
        self.answers.wait()
        return self.bytes


@pytest.fixture
def disk() -> SizedDisk:
    return SizedDisk()


def metrics(cluster: StorageCluster) -> dict[tuple[str, str], float]:
    """The values by name and log directory, "" for none."""
    assert cluster.node is not None
    return {
        (sample.name, sample.labels.get("log_directory", "")): sample.value
        for family in text_string_to_metric_families(cluster.node.environment.metrics.render().decode())
        for sample in family.samples
    }


async def measured(cluster: StorageCluster) -> str:
    """The path of the only log directory, whose space has just been read."""
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    await cluster.node.opened.disk_space.measure(home)
    return home.path


async def test_the_space_of_a_log_directory_is_what_its_file_system_says(cluster: StorageCluster, disk: SizedDisk) -> None:
    topic = await cluster.topic("t")
    await cluster.append(topic, batch(b"x"))
    path = await measured(cluster)
    found = metrics(cluster)
    assert found["penstock_storage_log_directory_size_bytes", path] == 100 * GIB
    assert found["penstock_storage_log_directory_free_bytes", path] == 50 * GIB
    assert found["penstock_storage_log_directory_used_bytes", path] == 50 * GIB
    assert 0 < found["penstock_storage_log_directory_logs_bytes", path] < 1000


def test_the_space_is_what_make_status_shows(tmp_path: Path) -> None:
    size, free = OsFileSystem().space(str(tmp_path))
    shown = shutil.disk_usage(tmp_path)
    assert size == shown.total
    assert abs(free - shown.free) < GIB  # others write meanwhile


async def test_a_disk_that_does_not_answer_hangs_no_scrape_and_is_not_shown(
    cluster: StorageCluster, disk: SizedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await measured(cluster)
    disk.answers.clear()
    asked = disk.asked
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    measuring = asyncio.create_task(cluster.node.opened.disk_space.measure(home))
    await until(lambda: disk.asked > asked)
    assert metrics(cluster)["penstock_storage_log_directory_free_bytes", path] == 50 * GIB
    monkeypatch.setattr("services.storage.disks.disk_space.STALE_S", -1.0)
    assert ("penstock_storage_log_directory_free_bytes", path) not in metrics(cluster)
    disk.answers.set()
    await measuring
    assert STALE_S > 2 * EVERY_S


async def test_a_node_warns_once_before_a_disk_is_full_and_says_when_it_has_room_again(
    cluster: StorageCluster, disk: SizedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for free in (11, 9, 8, 10, 12, 9):  # percent; at 10 it is still nearly full
        disk.bytes = (100 * GIB, free * GIB)
        await measured(cluster)
    said = [record.message for record in caplog.records if "nearly full" in record.message]
    assert said == ["log directory is nearly full", "log directory is no longer nearly full", "log directory is nearly full"]


async def test_a_full_disk_is_told_by_readiness_and_metrics_and_one_line_until_there_is_room(
    cluster: StorageCluster, disk: SizedDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.partition.disk_room.QUIET_S", 0.0)
    caplog.set_level("INFO")
    topic = await cluster.topic("full", partitions=20)
    path = await measured(cluster)
    assert cluster.node is not None
    assert metrics(cluster)["kafka_log_logmanager_offlinelogdirectorycount", ""] == 0
    assert metrics(cluster)["kafka_log_logmanager_logdirectoryoffline", path] == 0
    disk.fail_writes, disk.bytes = errno.ENOSPC, (100 * GIB, 0)
    for _ in range(3):
        refused = [cluster.send([(topic, index, batch(b"lost"))]) for index in range(20)]
        assert {appended(await append)[0].error for append in refused} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert cluster.node.ready() == (False, f"log directory full, appends are refused: {path}")
    found = metrics(cluster)
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ""] == 1
    assert found["kafka_log_logmanager_logdirectoryoffline", path] == 1
    assert found["penstock_storage_log_directory_full", path] == 1
    complaints = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert complaints == ["log directory is full: appends are refused"]

    disk.fail_writes, disk.bytes = None, (100 * GIB, 20 * GIB)
    await measured(cluster)
    assert cluster.node.ready() == (True, "")
    found = metrics(cluster)
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ""] == 0
    assert found["penstock_storage_log_directory_full", path] == 0
    (again,) = [record for record in caplog.records if record.message == "log directory takes appends again"]
    assert again.__dict__["fields"]["refused"] >= 60 // 20
    assert (await cluster.append(topic, batch(b"kept"))).error == 0


def member(cluster: StorageCluster) -> Member:
    assert cluster.node is not None
    assert cluster.node.registration.member is not None
    return cluster.node.registration.member


@pytest.mark.parametrize("meanwhile", ["runs on", "restarts"])
async def test_deleted_topics_make_room_on_a_disk_that_has_none_for_checkpoints(
    cluster: StorageCluster, disk: SizedDisk, meanwhile: str
) -> None:
    topic = await cluster.topic("goes")
    assert (await cluster.append(topic, batch(b"x"))).error == 0
    path = Path(await measured(cluster))
    aside = path / f"goes-0.{topic.hex()}-delete"
    await until(lambda: "goes" in (path / HIGH_WATERMARKS).read_text(encoding="utf-8"))
    delay_ms = "0" if meanwhile == "runs on" else "600000"
    configs = ConfigOverrides({"log.segment.delete.delay.ms": delay_ms})
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(configs))
    disk.fail_writes, disk.fail_writes_below = errno.ENOSPC, f"{path}/"
    await cluster.write(keys.partition(topic, 0), None)
    await cluster.write(keys.topic("goes"), None)
    await until(aside.exists)
    if meanwhile == "restarts":
        assert list(aside.iterdir())
        await cluster.stop()
        await cluster.start()
    await until(lambda: not list(aside.iterdir()))
    disk.fail_writes = None
    await cluster.stop()
    await cluster.start()
    await until(lambda: not aside.exists())


async def test_a_follower_on_a_full_disk_leaves_the_isr_and_copies_again_once_there_is_room(
    cluster: StorageCluster,
    disk: SizedDisk,
    leader: FakeLeader,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.storage.partition.disk_room.QUIET_S", 0.0)
    topic, log = await followed(cluster, leader, "followed")
    log.append(b"before")
    leader.changed()
    await caught_up(cluster, topic, log)
    state = image(cluster).partition(topic, 0)
    assert state is not None
    await show(cluster, topic, state, isr=(*state.isr, InSync(NODE_ID, cluster.incarnation)))
    disk.fail_writes, disk.bytes = errno.ENOSPC, (100 * GIB, 0)
    log.append(b"no room for it")
    leader.changed()
    await until(lambda: (topic, 0) in controller.withdrawn)
    path = await measured(cluster)
    await until(lambda: member(cluster).full_dirs == (path,))
    disk.fail_writes, disk.bytes = None, (100 * GIB, 20 * GIB)
    await measured(cluster)
    await caught_up(cluster, topic, log)
    await until(lambda: member(cluster).full_dirs == ())


async def test_a_replica_that_is_opened_in_a_full_directory_copies_nothing_before_there_is_room(
    cluster: StorageCluster,
    disk: SizedDisk,
    leader: FakeLeader,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.storage.partition.disk_room.QUIET_S", 0.0)
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    disk.bytes = (100 * GIB, 0)
    home.sync.room.opening_failed()
    topic, log = await followed(cluster, leader, "late")
    log.append(b"x")
    leader.changed()
    state = image(cluster).partition(topic, 0)
    assert state is not None
    await show(cluster, topic, state, isr=(*state.isr, InSync(NODE_ID, cluster.incarnation)))
    await until(lambda: (topic, 0) in controller.withdrawn)
    assert log_of(cluster, topic).log_end_offset == 0
    disk.bytes = (100 * GIB, 20 * GIB)
    await measured(cluster)
    await caught_up(cluster, topic, log)


async def test_a_leader_on_a_full_disk_asks_another_to_lead_and_serves_reads_meanwhile(
    cluster: StorageCluster, disk: SizedDisk, controller: FakeController
) -> None:
    shared = await replicated_topic(cluster, "shared", isr=(1, 2))
    alone = await replicated_topic(cluster, "alone", isr=(1,))
    assert (await cluster.append(alone, batch(b"before"))).error == 0
    disk.fail_writes, disk.bytes = errno.ENOSPC, (100 * GIB, 0)
    assert (await cluster.append(alone, batch(b"lost"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: set(controller.withdrawn) == {(shared, 0)})
    assert (await cluster.fetch(alone, 0)).ranges
    state = image(cluster).partition(alone, 0)
    assert state is not None
    await show(cluster, alone, state, isr=(*state.isr, InSync(2, INCARNATION)))  # another replica has caught up
    await until(lambda: (alone, 0) in controller.withdrawn)


async def test_a_disk_that_is_full_and_hangs_is_suspended_until_both_are_over(
    cluster: StorageCluster, disk: SizedDisk, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.partition.disk_room.QUIET_S", 0.0)
    topic = await replicated_topic(cluster, "both", isr=(1, 2))
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    disk.fail_writes, disk.bytes = errno.ENOSPC, (100 * GIB, 0)
    assert (await cluster.append(topic, batch(b"lost"), acks=1)).error == ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: (topic, 0) in controller.withdrawn)
    home.sync.stalled = True
    cluster.node.opened.sync_stalled(home.sync, stalled=True)
    disk.fail_writes, disk.bytes = None, (100 * GIB, 20 * GIB)
    await measured(cluster)
    controller.withdrawn.clear()
    state = image(cluster).partition(topic, 0)
    assert state is not None
    await show(cluster, topic, state, partition_epoch=state.partition_epoch + 1)
    await until(lambda: (topic, 0) in controller.withdrawn)
    home.sync.stalled = False
    cluster.node.opened.sync_stalled(home.sync, stalled=False)
    assert not home.sync.suspended


async def test_a_retired_directory_is_offline_and_has_no_space_to_show(cluster: StorageCluster, disk: SizedDisk) -> None:
    path = await measured(cluster)
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    home.sync.fail(OSError(errno.EIO, os.strerror(errno.EIO)))
    found = metrics(cluster)
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ""] == 1
    assert found["kafka_log_logmanager_logdirectoryoffline", path] == 1
    assert ("penstock_storage_log_directory_full", path) not in found
    assert ("penstock_storage_log_directory_free_bytes", path) not in found


async def test_logs_that_a_full_disk_keeps_from_opening_are_one_line(
    cluster: StorageCluster, disk: SizedDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 0.02)
    make, refused = cluster.fs.make_directories, set[str]()

    def refusing(path: str) -> None:
        if Path(path).name.startswith("late-") and path not in refused:
            refused.add(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(path)

    monkeypatch.setattr(cluster.fs, "make_directories", refusing)
    await cluster.topic("late", partitions=12)
    assert len(refused) == 12
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "log cannot be opened: its log directory is full"
    ]


async def test_a_node_that_starts_on_a_full_disk_registers_with_it(
    cluster: StorageCluster, disk: SizedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await measured(cluster)
    await cluster.stop()
    make = cluster.fs.make_directories

    def refusing(directory: str) -> None:
        if Path(directory).name.startswith("late-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        make(directory)

    monkeypatch.setattr(cluster.fs, "make_directories", refusing)
    disk.bytes = (100 * GIB, 0)
    topic = b"late".ljust(16, b"\0")
    await cluster.write(keys.partition(topic, 0), encode(replicated_state(cluster, (1,), replicas=(1,))))
    await cluster.write(keys.topic("late"), encode(Topic("late", topic.hex(), 1)))
    await cluster.start()
    registered = await cluster.member()
    assert registered is not None
    assert registered.full_dirs == (path,)


def test_a_directory_stays_full_while_appends_are_refused_or_bytes_are_missing() -> None:
    timers = FakeTimers()
    changes: list[bool] = []
    room = DiskRoom("/logs", timers, lambda: changes.append(room.full))
    room.append_failed(FULL, "t-0")
    room.append_failed(FULL, "t-0")
    room.measured(ROOM_BYTES)
    assert room.full  # it was refused just now: a quota may be used up
    timers.advance(QUIET_S)
    room.measured(ROOM_BYTES - 1)
    assert room.full
    room.measured(ROOM_BYTES)
    assert not room.full
    assert changes == [True, False]


def test_a_directory_that_is_full_again_and_again_is_tried_ever_more_rarely() -> None:
    timers = FakeTimers()
    room = DiskRoom("/logs", timers, lambda: None)

    def full_for() -> float:
        """The seconds from a refusal until the directory is tried again. A quota refuses, and leaves bytes free."""
        room.append_failed(FULL, "t-0")
        begun = timers.now
        while room.full:
            timers.advance(1.0)
            room.measured(ROOM_BYTES)
        return timers.now - begun

    assert [full_for() for _ in range(8)] == [QUIET_S, 10, 20, 40, 80, 160, QUIET_S_MAX, QUIET_S_MAX]
    timers.advance(2 * QUIET_S_MAX)
    assert full_for() == QUIET_S


def test_failed_appends_of_one_directory_are_one_line_a_minute_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    timers = FakeTimers()
    room = DiskRoom("/logs", timers, lambda: None)
    for index in range(75):
        room.append_failed(FULL, f"t-{index}")
    broken = LogWriteError("broken", fatal=True, number=errno.EIO)
    for index in range(75):
        room.append_failed(broken, f"t-{index}")
    timers.advance(LINES_S)
    lines = [(record.message, record.__dict__["fields"]["count"]) for record in caplog.records]
    full = "log directory is full: appends are refused"
    assert lines == [(full, 1), ("append failed", 1), (full, 74), ("append failed", 74)]
