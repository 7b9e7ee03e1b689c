from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.storage.cluster import StorageCluster, storage_cluster
from tests.storage.fake_controller import FakeController
from tests.storage.fake_leader import FakeLeader
from tests.storage.held_disk import HeldDisk
from tests.storage.set_clock import SetClock


@pytest.fixture
def disk() -> Iterator[HeldDisk]:
    held = HeldDisk()
    yield held
    held.release()
    assert not held.reads_on_loop, "an event loop waited for a disk: " + "\n".join(held.reads_on_loop)


@pytest.fixture
async def cluster(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> AsyncIterator[StorageCluster]:
    """Overrides the real cluster of the same name: here a single node in this process."""
    async with storage_cluster(tmp_path, short_dir, disk) as running:
        yield running
        disk.release()


@pytest.fixture
async def clock(cluster: StorageCluster) -> SetClock:
    """The node's, which was started again with it."""
    await cluster.stop()
    cluster.clock = clock = SetClock()
    await cluster.start()
    return clock


@pytest.fixture
async def leader(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[FakeLeader]:
    """Another node that the test plays."""
    played = FakeLeader(cluster, short_dir)
    await played.start()
    yield played
    await played.stop()


@pytest.fixture
async def controller(cluster: StorageCluster, short_dir: Path) -> AsyncIterator[FakeController]:
    """The elected controller that the test plays. Modules with another one have a fixture of the same name."""
    elected = await FakeController(cluster).elect(short_dir)
    yield elected
    await elected.close()
