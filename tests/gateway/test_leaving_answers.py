"""Answers on their way to the client: a fault in what counts them ends their connection, wholly, and nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fetch_requests import with_file
from tests.gateway.kafka_client import FETCH, PRODUCE, RawClient, fetch_body
from tests.gateway.produce_requests import PRODUCE_ONE
from tests.support.polling import until


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests that were counted. Each count fails."""
    found: list[Any] = []

    def completed(_connections: object, exchanges: Sequence[Any], _now: float) -> None:
        found.extend(exchanges)
        raise ZeroDivisionError

    monkeypatch.setattr("services.gateway.net.connections.Connections.completed", completed)
    return found


async def test_a_count_that_fails_ends_one_connection_and_counts_nothing_twice(rig: Rig, counted: list[Any]) -> None:
    gateway = await rig.start()
    client, other = await rig.client(1), await rig.client(1)
    client.ask(PRODUCE, 9, PRODUCE_ONE)
    assert await client.ended()
    await until(lambda: len(gateway.connections) == 1)
    assert len(counted) == 1
    other.ask(PRODUCE, 9, PRODUCE_ONE)
    await other.answer(PRODUCE, 9)
    assert gateway.meters.requests.used == 0


async def test_a_count_that_fails_at_the_end_of_a_connection_leaves_nothing_behind(rig: Rig, counted: list[Any]) -> None:
    gateway = await rig.start()
    with_file(rig, 16 << 20)
    client = await RawClient.connect(rig.port_base + 1, limit=1024)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    await until(lambda: bool(gateway.data_path.files.in_use))
    await client.close()
    await until(lambda: bool(counted))
    await until(lambda: not len(gateway.connections))
    assert gateway.meters.requests.used == 0
