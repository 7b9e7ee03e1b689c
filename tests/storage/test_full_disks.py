"""Full disks: what a node says of them, in metrics, in its readiness and in its log, before, during and after."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.errors import LogWriteError
from libs.wire.errors import ErrorCode
from services.storage.disks.disk_space import EVERY_S, STALE_S
from services.storage.partition.disk_room import LINES_S, QUIET_S, ROOM_BYTES, DiskRoom
from tests.storage.cluster import StorageCluster, appended, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

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
    (home,) = cluster.node.disks.all
    await cluster.node.disk_space.measure(home)
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
    (home,) = cluster.node.disks.all
    measuring = asyncio.create_task(cluster.node.disk_space.measure(home))
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

    monkeypatch.setattr("services.storage.partition.disk_room.QUIET_S", 0.0)
    disk.fail_writes, disk.bytes = None, (100 * GIB, 20 * GIB)
    await measured(cluster)
    assert cluster.node.ready() == (True, "")
    found = metrics(cluster)
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ""] == 0
    assert found["penstock_storage_log_directory_full", path] == 0
    (again,) = [record for record in caplog.records if record.message == "log directory takes appends again"]
    assert again.__dict__["fields"]["refused"] >= 60 // 20
    assert (await cluster.append(topic, batch(b"kept"))).error == 0


async def test_a_retired_directory_is_offline_and_has_no_space_to_show(cluster: StorageCluster, disk: SizedDisk) -> None:
    path = await measured(cluster)
    assert cluster.node is not None
    (home,) = cluster.node.disks.all
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


def test_a_directory_stays_full_while_appends_are_refused_or_bytes_are_missing() -> None:
    now = 0.0
    room = DiskRoom("/logs", lambda: now)
    room.append_failed(FULL, "t-0")
    room.measured(ROOM_BYTES)
    assert room.full  # it was refused just now: a quota may be used up
    now += QUIET_S
    room.measured(ROOM_BYTES - 1)
    assert room.full
    room.measured(ROOM_BYTES)
    assert not room.full


def test_failed_appends_of_one_directory_are_one_line_a_minute_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    room = DiskRoom("/logs", lambda: now)
    for index in range(75):
        room.append_failed(FULL, f"t-{index}")
    broken = LogWriteError("broken", fatal=True, number=errno.EIO)
    for index in range(75):
        room.append_failed(broken, f"t-{index}")
    now += LINES_S
    room.append_failed(FULL, "t-0")
    lines = [(record.message, record.__dict__["fields"]["count"]) for record in caplog.records]
    full = "log directory is full: appends are refused"
    assert lines == [(full, 1), ("append failed", 1), (full, 75)]
