"""A node whose id another process has: it must not run, and the other must not notice."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from services.storage.registration import NodeIdTaken
from tests.storage.cluster import StorageCluster


@pytest.mark.parametrize("copied", [False, True], ids=["other disks", "a copy of its disks"])
async def test_a_second_process_with_the_id_of_a_live_one_is_refused_and_changes_nothing(
    cluster: StorageCluster, tmp_path: Path, copied: bool
) -> None:
    folder = tmp_path / "second"
    if copied:
        shutil.copytree(cluster.config.data_dir, folder, ignore=shutil.ignore_patterns("*.tmp"))  # it runs, and writes
    before = sorted(folder.rglob("*"))
    second = StorageCluster(folder, tmp_path, OsFileSystem())
    second.store, second.incarnation = cluster.store.peer(), cluster.incarnation + 5
    second.config = replace(second.config, rpc_unix=f"{cluster.config.rpc_unix}2")
    with pytest.raises(NodeIdTaken, match="runs already"):
        await second.start()
    await second.stop()
    assert cluster.node is not None
    assert cluster.node.ready() == (True, "")
    assert cluster.deaths == []
    assert sorted(folder.rglob("*")) == before


async def test_a_node_that_was_killed_starts_again_while_its_lease_lives(cluster: StorageCluster) -> None:
    record = await cluster.store.get(f"/penstock/members/storage/{cluster.config.node_id}")
    assert record is not None
    await cluster.stop()
    await cluster.write(record.key, record.value)
    assert (await cluster.start()).ready() == (True, "")
