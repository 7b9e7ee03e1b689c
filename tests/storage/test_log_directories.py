"""Several log directories, and their checkpoints."""

import errno
import shutil
import threading
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.commitlog.checkpoints.offset_checkpoint import parse_offsets
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, RECOVERY_POINTS
from libs.wire.errors import ErrorCode
from services.storage.registration import StorageRegistration
from tests.storage.cluster import NODE_ID, StorageCluster, batch
from tests.storage.held_disk import OneBadDisk
from tests.storage.two_directories import with_two_directories
from tests.support.polling import until


@pytest.fixture
def disk() -> OneBadDisk:
    return OneBadDisk()


async def test_partitions_spread_over_directories_and_outlive_a_broken_one(cluster: StorageCluster, disk: OneBadDisk) -> None:
    await with_two_directories(cluster)
    topic = await cluster.topic("spread", partitions=4)
    root = Path(cluster.config.data_dir)
    of_one = {int(path.name[-1]) for path in (root / "one").iterdir() if path.name.startswith("spread-")}
    assert len(of_one) == 2
    disk.bad = f"{root}/one"
    for index in range(4):
        stored = await cluster.append(topic, batch(b"x"), index=index)
        assert stored.error == (ErrorCode.KAFKA_STORAGE_ERROR if index in of_one else 0)

    async def is_reported() -> bool:
        member = await cluster.member()
        return member is not None and len(member.log_dirs) == 1 and member.failed_dirs == 1

    await until(is_reported)
    assert cluster.node is not None
    assert cluster.node.ready() == (True, "")


async def test_a_node_says_that_it_could_not_open_a_directory_for_what_it_lacks_may_lie_there(cluster: StorageCluster) -> None:
    first, _ = await with_two_directories(cluster)
    member = await cluster.member()
    assert member is not None
    assert member.failed_dirs == 0
    await cluster.stop()
    (Path(cluster.config.data_dir) / "two" / ".retired").write_text("it was slow\n", encoding="utf-8")
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert (member.log_dirs, member.failed_dirs) == ((first,), 1)


async def test_a_directory_that_fails_before_the_node_registers_is_not_among_those_that_it_names(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await with_two_directories(cluster)
    await cluster.stop()

    async def register_late(registration: StorageRegistration) -> None:
        assert cluster.node is not None
        cluster.node.opened.disks.all[1].sync.fail(OSError(errno.EIO, "bad disk"))
        await until(lambda: registration.member is not None and registration.member.failed_dirs == 1)
        await register(registration)

    register = StorageRegistration.register
    monkeypatch.setattr(StorageRegistration, "register", register_late)
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert (member.log_dirs, member.failed_dirs) == ((first,), 1)


async def test_a_replica_goes_where_its_state_says(cluster: StorageCluster) -> None:
    _, second = await with_two_directories(cluster)
    for name, directory in (("here", second), ("lost", "ab" * 16)):
        topic = next(cluster.topic_ids).to_bytes(16, "big")
        state = PartitionState(
            (Replica(NODE_ID, directory),), NODE_ID, cluster.incarnation, 0, 0, (InSync(NODE_ID, cluster.incarnation),)
        )
        await cluster.write(keys.partition(topic, 0), encode(state))
        await cluster.write(keys.topic(name), encode(Topic(name, topic.hex(), 1)))
        if name == "here":
            await cluster.leads(topic)
        else:
            # Starting anew, empty, in another directory would pass for what was acknowledged.
            async def offline(topic: bytes = topic) -> bool:
                return (await cluster.append(topic, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR

            await until(offline)
    root = Path(cluster.config.data_dir)
    assert (root / "two" / "here-0").exists()
    assert not (root / "one" / "lost-0").exists()
    assert not (root / "two" / "lost-0").exists()


async def test_high_watermarks_are_checkpointed_in_kafkas_form(cluster: StorageCluster) -> None:
    topic = await cluster.topic("marked")
    await cluster.append(topic, batch(b"a", b"b"))
    checkpoint = Path(cluster.config.directories[0]) / HIGH_WATERMARKS
    await until(lambda: checkpoint.exists() and "\nmarked 0 2\n" in checkpoint.read_text(encoding="utf-8"))


async def test_a_clean_stop_leaves_recovery_points_at_the_ends_of_the_logs(cluster: StorageCluster) -> None:
    topic = await cluster.topic("stopped")
    await cluster.append(topic, batch(b"a", b"b"))
    await cluster.stop()
    path = Path(cluster.config.directories[0]) / RECOVERY_POINTS
    assert parse_offsets(path.read_bytes(), str(path)) == {("stopped", 0): 2}


async def test_a_log_that_cannot_be_opened_now_is_opened_later(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 0.02)
    make, refusals = cluster.fs.make_directories, [errno.ENOSPC, errno.EMFILE]

    def refusing(path: str) -> None:
        if path.endswith("patient-0") and refusals:
            raise OSError(refusals.pop(), "not now")
        make(path)

    monkeypatch.setattr(cluster.fs, "make_directories", refusing)
    topic = await cluster.topic("patient")
    assert refusals == []
    assert (await cluster.append(topic, batch(b"x"))).error == 0


async def test_logs_of_one_directory_are_opened_side_by_side(
    cluster: StorageCluster, disk: OneBadDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.topic("many", partitions=2)
    await cluster.stop()
    together = threading.Barrier(2, timeout=60)
    list_directory = disk.list_directory

    def meet(path: str) -> list[str]:
        if "many-" in path:
            together.wait()
        return list_directory(path)

    monkeypatch.setattr(disk, "list_directory", meet)
    await cluster.start()
    for index in range(2):
        await cluster.state(topic, index, epoch=1)
        await cluster.leads(topic, index, 1)


def written_at(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(root.glob("*/**/*"))}


async def test_a_copied_log_directory_is_refused_at_the_start_and_nothing_in_it_is_touched(cluster: StorageCluster) -> None:
    await with_two_directories(cluster)
    await cluster.topic("t", partitions=2)
    await cluster.stop()
    root = Path(cluster.config.data_dir)
    shutil.rmtree(root / "two")
    shutil.copytree(root / "one", root / "two")
    before = written_at(root)
    with pytest.raises(DirectoryDamaged, match=rf"{root}/two is a copy of {root}/one"):
        await cluster.start()
    assert written_at(root) == before
    assert cluster.node is not None
    await cluster.stop()
    shutil.rmtree(root / "two")
    await cluster.start()
