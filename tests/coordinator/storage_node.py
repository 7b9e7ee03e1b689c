"""The storage node of tests with whole coordinators: fixtures, which their conftests import."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.storage.cluster import StorageCluster, storage_cluster
from tests.storage.held_disk import HeldDisk


@pytest.fixture
def disk() -> Iterator[HeldDisk]:
    held = HeldDisk()
    yield held
    held.release()


@pytest.fixture
async def node(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> AsyncIterator[StorageCluster]:
    """One storage node in this process, and a store."""
    async with storage_cluster(tmp_path, short_dir, disk) as running:
        yield running
        disk.release()
