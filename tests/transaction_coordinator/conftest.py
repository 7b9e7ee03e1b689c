from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.storage.cluster import StorageCluster, storage_cluster
from tests.storage.held_disk import HeldDisk
from tests.transaction_coordinator.processes import Coordinator, ProducerIdController


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


@pytest.fixture
async def begin(node: StorageCluster, short_dir: Path) -> AsyncIterator[Callable[[int], Awaitable[Coordinator]]]:
    """Starts a coordinator process; all are stopped at the end."""
    controller = await ProducerIdController().elect(node, short_dir)
    running: list[Coordinator] = []

    async def start(node_id: int = 1) -> Coordinator:
        item = Coordinator(node.store, short_dir, node_id)
        running.append(item)
        return await item.start()

    yield start
    for item in running:
        await item.stop()
    await controller.close()
