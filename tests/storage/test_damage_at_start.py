"""A partition that lost what was synced is offline, says so once and says what to do; the rest of the node serves on."""

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.opening.losses import accept
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS
from libs.wire.errors import ErrorCode
from tests.storage.cluster import NODE_ID, StorageCluster, batch
from tests.support.polling import until

OFFLINE = "partition is offline: synced records are missing"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 0.02)


def log_directory(cluster: StorageCluster) -> Path:
    return Path(cluster.config.directories[0])


def said(caplog: pytest.LogCaptureFixture, message: str = OFFLINE) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in caplog.records if record.message == message]


async def two_topics(cluster: StorageCluster) -> tuple[bytes, bytes]:
    """With records in them, and the node down."""
    damaged, sound = await cluster.topic("damaged"), await cluster.topic("sound")
    for _ in range(5):
        for topic in (damaged, sound):
            assert (await cluster.append(topic, batch(b"x"))).error == 0
    await cluster.stop()
    (log_directory(cluster) / ".kafka_cleanshutdown").unlink()
    return damaged, sound


async def restart(cluster: StorageCluster, damaged: bytes, sound: bytes, epoch: int = 1) -> None:
    """Returns once the sound one is led, and the other one's trouble is known."""
    await cluster.start()
    await cluster.state(damaged, epoch=epoch)
    await cluster.state(sound, epoch=epoch)
    await cluster.leads(sound, 0, epoch)


async def in_the_checkpoint(cluster: StorageCluster) -> tuple[bytes, Path]:
    """A topic of which the running node has noted how much is committed, and the file that says so."""
    damaged, sound = await two_topics(cluster)
    await restart(cluster, damaged, sound)
    checkpoint = log_directory(cluster) / HIGH_WATERMARKS
    await until(lambda: "damaged 0 5" in checkpoint.read_text(encoding="utf-8"))
    return damaged, checkpoint


async def is_offline(cluster: StorageCluster, damaged: bytes, sound: bytes) -> None:
    assert (await cluster.append(damaged, batch(b"y"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.fetch(damaged, 0)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.append(sound, batch(b"y"))).error == 0


async def test_a_partition_whose_directory_is_gone_is_not_begun_anew(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = await two_topics(cluster)
    shutil.rmtree(log_directory(cluster) / "damaged-0")
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    assert not (log_directory(cluster) / "damaged-0").exists()
    [line] = said(caplog)
    assert "offsets up to 4 were synced" in str(line["reason"])
    assert f"accept-loss {log_directory(cluster)}/damaged-0" in line["way_out"]

    # Nor by the start after that, whatever checkpoints were written meanwhile.
    checkpoint = log_directory(cluster) / HIGH_WATERMARKS
    await until(lambda: "sound 0 6" in checkpoint.read_text(encoding="utf-8"))
    assert "damaged 0 5" in checkpoint.read_text(encoding="utf-8")
    await cluster.stop()
    await restart(cluster, damaged, sound, epoch=2)
    await is_offline(cluster, damaged, sound)


async def test_a_loss_can_be_accepted_while_the_node_serves(cluster: StorageCluster) -> None:
    damaged, sound = await two_topics(cluster)
    shutil.rmtree(log_directory(cluster) / "damaged-0")
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    accept(OsFileSystem(), str(log_directory(cluster) / "damaged-0"))
    await cluster.leads(damaged, 0, 1)
    assert (await cluster.append(damaged, batch(b"new"))).base_offset == 5
    await until(lambda: not (log_directory(cluster) / "damaged-0" / "accept-loss").exists())
    assert (await cluster.fetch(damaged, 0)).error == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_directory_that_comes_back_is_opened(cluster: StorageCluster) -> None:
    damaged, sound = await two_topics(cluster)
    path, aside = log_directory(cluster) / "damaged-0", log_directory(cluster).parent / "aside"
    path.rename(aside)
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    shutil.copytree(aside, path)
    await cluster.leads(damaged, 0, 1)
    assert (await cluster.append(damaged, batch(b"z"))).base_offset == 5


async def test_a_directory_that_was_emptied_is_no_new_log(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    damaged, sound = await two_topics(cluster)
    for path in (log_directory(cluster) / "damaged-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    assert "no segment is left" in str(said(caplog)[0]["reason"])


async def test_a_log_that_ends_before_what_was_committed_is_said_to_be_damaged_once(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = await two_topics(cluster)
    path = log_directory(cluster) / "damaged-0"
    for point in path.glob("*.resume"):
        point.unlink()
    segment = path / f"{0:020d}.log"
    os.truncate(segment, segment.stat().st_size // 5 * 3)
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    await cluster.state(damaged, epoch=7)
    await is_offline(cluster, damaged, sound)
    assert ["offsets 3 to 4 were synced" in str(line["reason"]) for line in said(caplog)] == [True]


async def test_a_topic_made_again_is_not_asked_for_the_records_of_its_former_self(cluster: StorageCluster) -> None:
    damaged, checkpoint = await in_the_checkpoint(cluster)
    path = checkpoint.parent
    stale = checkpoint.read_bytes()
    await cluster.write(keys.topic("damaged"), None)
    await cluster.stop()
    aside = next(path.glob("damaged-0.*-*"), None)
    if aside is None:
        (path / f"damaged-0.{damaged.hex()}-delete").mkdir()
    checkpoint.write_bytes(stale)
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    await cluster.start()
    again = await cluster.topic("damaged")
    assert (await cluster.append(again, batch(b"new"))).base_offset == 0


async def test_the_checkpoint_forgets_a_deleted_topic_before_its_files_go(cluster: StorageCluster) -> None:
    """Else a topic of the same name, made after that, would seem to lack records after the next crash."""
    damaged, checkpoint = await in_the_checkpoint(cluster)
    path = checkpoint.parent
    stale = checkpoint.read_bytes()
    await cluster.write(keys.topic("damaged"), None)
    await cluster.stop()
    deleted = path / f"damaged-0.{damaged.hex()}-delete"
    deleted.mkdir(exist_ok=True)
    checkpoint.write_bytes(stale)
    await cluster.start()
    await until(lambda: not deleted.exists())
    assert "damaged 0 5" not in checkpoint.read_text(encoding="utf-8")


async def test_a_running_node_forgets_a_deleted_topic_before_its_files_go(cluster: StorageCluster) -> None:
    damaged, checkpoint = await in_the_checkpoint(cluster)
    path = checkpoint.parent
    deleted = path / f"damaged-0.{damaged.hex()}-delete"
    checkpoints: list[str] = []
    remove = cluster.fs.remove_tree

    def removing(name: str) -> None:
        if name == str(deleted):
            checkpoints.append(checkpoint.read_text(encoding="utf-8"))
        remove(name)

    cluster.fs.remove_tree = removing  # type: ignore[method-assign]
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "0"})))
    await cluster.write(keys.topic("damaged"), None)
    await until(lambda: checkpoints)
    assert "damaged 0 5" not in checkpoints[0]


async def test_the_loss_of_a_deleted_topic_is_forgotten(cluster: StorageCluster) -> None:
    damaged, sound = await two_topics(cluster)
    shutil.rmtree(log_directory(cluster) / "damaged-0")
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    await cluster.write(keys.topic("damaged"), None)
    again = await cluster.topic("damaged")
    assert (await cluster.append(again, batch(b"new"))).base_offset == 0


async def test_a_directory_with_a_log_that_was_not_opened_is_not_marked_as_clean(cluster: StorageCluster) -> None:
    """What a crash left of that log was not looked at, and whoever opens it later must know."""
    damaged, sound = await two_topics(cluster)
    for path in (log_directory(cluster) / "damaged-0").glob("*.log"):
        path.unlink()
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    await cluster.stop()
    assert not (log_directory(cluster) / ".kafka_cleanshutdown").exists()


async def test_segments_without_metadata_are_taken_for_the_partition_of_that_name_and_that_is_said(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = await two_topics(cluster)
    metadata = log_directory(cluster) / "damaged-0" / "partition.metadata"
    before = metadata.read_bytes()
    metadata.unlink()
    await restart(cluster, damaged, sound)
    await cluster.leads(damaged, 0, 1)
    assert (await cluster.append(damaged, batch(b"y"))).base_offset == 5
    assert "damaged-0 has segments and no partition.metadata" in caplog.text
    assert "sound-0 has segments" not in caplog.text
    assert metadata.read_bytes() == before


@pytest.mark.parametrize("damage", ["garbage", "another topic", "pipe", "directory"])
async def test_segments_that_do_not_say_whose_they_are_stay_offline_until_they_do(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    damaged, sound = await two_topics(cluster)
    metadata = log_directory(cluster) / "damaged-0" / "partition.metadata"
    before = metadata.read_bytes()
    metadata.unlink()
    if damage == "pipe":
        os.mkfifo(metadata)
    elif damage == "directory":
        metadata.mkdir()
    else:
        metadata.write_bytes(b"?" if damage == "garbage" else b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    await restart(cluster, damaged, sound)
    if damage == "another topic":  # which is a stray, and makes room
        assert list(log_directory(cluster).glob("damaged-0.*-stray"))
        return
    await is_offline(cluster, damaged, sound)
    [line] = said(caplog, "log cannot be opened")
    assert str(metadata) in str(line["reason"])
    metadata.rmdir() if damage == "directory" else metadata.unlink()
    metadata.write_bytes(before)
    await cluster.leads(damaged, 0, 1)
    assert (await cluster.append(damaged, batch(b"y"))).base_offset == 5


async def test_a_partition_that_was_moved_to_another_directory_is_not_missed(cluster: StorageCluster) -> None:
    topic = await cluster.topic("moved")
    assert (await cluster.append(topic, batch(b"x"))).error == 0
    await cluster.stop()
    root = Path(cluster.config.data_dir)
    cluster.config = replace(cluster.config, log_dirs=(str(log_directory(cluster)), f"{root}/other"))
    (root / "other").mkdir()
    (log_directory(cluster) / "moved-0").rename(root / "other" / "moved-0")
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, 0, 1)
    await cluster.write(keys.topic("moved"), None)
    again = await cluster.topic("moved")
    assert (await cluster.append(again, batch(b"new"))).base_offset == 0


async def test_a_damaged_checkpoint_of_starts_blocks_no_start(cluster: StorageCluster) -> None:
    """KAFKA-1758."""
    damaged, sound = await two_topics(cluster)
    (log_directory(cluster) / LOG_START_OFFSETS).write_bytes(b"0\n7\nx")
    await restart(cluster, damaged, sound)
    await cluster.leads(damaged, 0, 1)
    await cluster.leads(sound, 0, 1)


async def test_a_segment_that_is_a_directory_is_reported_once(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    damaged, sound = await two_topics(cluster)
    segment = log_directory(cluster) / "damaged-0" / f"{0:020d}.log"
    segment.unlink()
    segment.mkdir()
    await restart(cluster, damaged, sound)
    await is_offline(cluster, damaged, sound)
    await cluster.state(damaged, epoch=5)
    await is_offline(cluster, damaged, sound)
    lines = [line for line in said(caplog, "log cannot be opened") + said(caplog) if line["topic"] == "damaged"]
    assert len(lines) == 1
    assert segment.name in str(lines[0]["reason"])


def test_the_tests_log_errors(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("log").error("heard")
    assert "heard" in caplog.text
