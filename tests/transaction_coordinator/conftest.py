from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.coordinator.storage_node import disk as disk
from tests.coordinator.storage_node import node as node
from tests.storage.cluster import StorageCluster
from tests.transaction_coordinator.data_topic import DATA, SHARDS, Generation, GenerationClient, MakeClient, take_all
from tests.transaction_coordinator.processes import Coordinator, ProducerIdController


@pytest.fixture
async def controller(node: StorageCluster, short_dir: Path) -> AsyncIterator[ProducerIdController]:
    elected = await ProducerIdController().elect(node, short_dir)
    yield elected
    await elected.close()


@pytest.fixture
async def begin(
    node: StorageCluster, short_dir: Path, controller: ProducerIdController
) -> AsyncIterator[Callable[[int], Awaitable[Coordinator]]]:
    """Starts a coordinator process; all are stopped at the end."""
    running: list[Coordinator] = []

    async def start(node_id: int = 1) -> Coordinator:
        item = Coordinator(node.store, short_dir, node_id)
        running.append(item)
        return await item.start()

    yield start
    for item in running:
        await item.stop()


@pytest.fixture
async def topic(node: StorageCluster) -> bytes:
    return await node.topic("__transaction_state", partitions=SHARDS, cleanup_policy="compact")


@pytest.fixture
async def data(node: StorageCluster) -> bytes:
    return await node.topic(DATA)


@pytest.fixture
async def owner(node: StorageCluster, topic: bytes, data: bytes, begin: Callable[..., Awaitable[Coordinator]]) -> Coordinator:
    """A coordinator that owns all shards."""
    coordinator = await begin()
    await take_all(node, topic, coordinator, 1)
    return coordinator


@pytest.fixture
def make_client(node: StorageCluster, data: bytes, owner: Coordinator) -> MakeClient:
    """Makes a producer of a generation, with a producer id."""

    async def make(generation: Generation, timeout_ms: int = 60_000) -> GenerationClient:
        client = GenerationClient(node, owner, data, generation)
        assert await client.init(timeout_ms) == 0
        return client

    return make
