from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from libs.runtime.peers import Peers
from services.group_coordinator.coordinator import MakeMachine
from tests.coordinator.storage_node import disk as disk
from tests.coordinator.storage_node import node as node
from tests.group_coordinator.counting import Counting
from tests.group_coordinator.processes import Coordinator
from tests.storage.cluster import WAIT_S, StorageCluster


@pytest.fixture
async def begin(node: StorageCluster, short_dir: Path) -> AsyncIterator[Callable[..., Awaitable[Coordinator]]]:
    """Starts a coordinator process; all are stopped at the end."""
    running: list[Coordinator] = []

    async def start(
        node_id: int = 1,
        make: MakeMachine = Counting,
        *,
        peers: Callable[[Coordinator], Peers] | None = None,
        cut_off: bool = False,
        hand_over_s: float = WAIT_S / 2,
    ) -> Coordinator:
        item = Coordinator(node.store, short_dir, node_id, make, peers, hand_over_s)
        item.store.unavailable = cut_off
        running.append(item)
        return await item.start()

    yield start
    for item in running:
        await item.stop()
