"""Three nodes that keep each other's listening sockets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.node.sibling_nodes import Node
from tests.support.polling import until


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    started = [await Node(node_id, tmp_path).start() for node_id in (1, 2, 3)]
    for node in started:
        others = {each.node_id for each in started} - {node.node_id}
        await until(lambda node=node, others=others: node.siblings.keeps == others)
    yield started
    for node in started:
        node.stop()
