"""A file system that is mounted read-only, as Linux does it after an error: its partitions are offline, the others serve on."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, batch
from tests.storage.held_disk import HeldDisk
from tests.support.requirements import ROOT


class ReadOnlyBelow(HeldDisk):
    """The disk at `path` takes no change."""

    path = ""

    def _check(self, path: str) -> None:
        if self.path and path.startswith(self.path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def open_append(self, path: str, *, create: bool) -> int:
        self._check(path)
        return super().open_append(path, create=create)

    def lock(self, path: str) -> int:
        self._check(path)
        return super().lock(path)

    def unlink(self, path: str) -> None:
        self._check(path)
        super().unlink(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)


@pytest.fixture
def disk() -> ReadOnlyBelow:
    return ReadOnlyBelow()


async def two_directories(cluster: StorageCluster) -> tuple[bytes, set[int]]:
    """A topic of four partitions, and which of them are in the first directory."""
    await cluster.stop()
    root = cluster.config.data_dir
    cluster.config = replace(cluster.config, log_dirs=(f"{root}/one", f"{root}/two"))
    await cluster.start()
    topic = await cluster.topic("spread", partitions=4)
    for index in range(4):
        assert (await cluster.append(topic, batch(b"x"), index=index)).error == 0
    return topic, {int(path.name[-1]) for path in (Path(root) / "one").glob("spread-*")}


@pytest.mark.parametrize("clean", [True, False])
async def test_a_directory_that_is_read_only_at_the_start_takes_only_its_partitions_down(
    cluster: StorageCluster, disk: ReadOnlyBelow, caplog: pytest.LogCaptureFixture, *, clean: bool
) -> None:
    topic, of_one = await two_directories(cluster)
    assert cluster.node is not None
    directories = [disk.directory_id for disk in cluster.node.opened.disks.all]
    for index in range(4):
        await cluster.state(topic, index, epoch=0, directory=directories[0 if index in of_one else 1])
    await cluster.stop()
    root = Path(cluster.config.data_dir)
    if not clean:
        (root / "two" / ".kafka_cleanshutdown").unlink()
    disk.path = str(root / "one")
    await cluster.start()
    for index in range(4):
        await cluster.state(topic, index, epoch=1, directory=directories[0 if index in of_one else 1])
        if index not in of_one:
            await cluster.leads(topic, index, 1)
    for index in range(4):
        stored = await cluster.append(topic, batch(b"y"), index=index)
        assert stored.error == (ErrorCode.KAFKA_STORAGE_ERROR if index in of_one else 0)
    [line] = [record for record in caplog.records if record.message == "log directory cannot be used"]
    assert "Read-only file system" in str(line.__dict__["fields"]["reason"])


async def test_a_directory_that_becomes_read_only_while_its_logs_are_opened_keeps_them_offline_until_it_is_not(
    cluster: StorageCluster, disk: ReadOnlyBelow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 0.02)
    topic = await cluster.topic("t")
    assert (await cluster.append(topic, batch(b"x"))).error == 0
    await cluster.stop()
    root = Path(cluster.config.directories[0])
    (root / ".kafka_cleanshutdown").unlink()
    segment = next((root / "t-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes() + b"torn")
    disk.path = str(root / "t-0")
    await cluster.start()
    await cluster.state(topic, epoch=1)
    assert (await cluster.append(topic, batch(b"y"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    disk.path = ""
    await cluster.leads(topic, 0, 1)
    assert (await cluster.append(topic, batch(b"y"))).base_offset == 1


def test_a_data_directory_that_cannot_be_written_is_said_in_a_line() -> None:
    path = "/proc/penstock"
    environment = {"PENSTOCK_NODE_ID": "1", "PENSTOCK_DATA_DIR": path, "PENSTOCK_ETCD": "127.0.0.1:1"}
    ended = subprocess.run(
        [sys.executable, "-m", "services.storage"], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(f"storage: {path} cannot be written: ")
    assert "Traceback" not in ended.stderr
