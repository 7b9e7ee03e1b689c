"""Answers on their way to the client: a fault in what counts them ends their connection, wholly, and nothing else."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from libs.rpc.transport.transport import Stream
from services.gateway.exchange.exchange import ClientConnection, Exchange
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.net.leaving_answers import LeavingAnswers
from services.gateway.shortcuts.produce_run import ProduceRun
from services.gateway.shortcuts.produce_shortcut import RepeatedProduce
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


class SlowStream:
    """Its kernel takes what a test says."""

    def __init__(self) -> None:
        self.bytes_sent = self.pending_bytes = 0
        self.disk_wait_s = 0.0
        self.on_flushed: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        self.pending_bytes += len(data)

    def take(self, size: int) -> None:
        self.bytes_sent, self.pending_bytes = self.bytes_sent + size, self.pending_bytes - size
        self.on_flushed()


class Counted:
    bytes_out = 0


@pytest.mark.parametrize("is_slow", [False, True])
def test_each_answer_of_a_run_has_left_when_the_kernel_has_it(is_slow: bool) -> None:
    """A run that became slow is taken apart for its traces before it is written."""
    stream, left = SlowStream(), list[int]()
    leaving = LeavingAnswers(
        cast("Stream", stream),
        cast("GatewayMeters", Counted()),
        lambda exchanges, _now: left.extend(each.correlation_id for each in exchanges),
        lambda: 0.0,
    )
    exchange = Exchange(cast("ClientConnection", None), memoryview(b"request"), 0, 0.0, True)
    exchange.run = run = ProduceRun(cast("RepeatedProduce", None))
    for correlation_id in (1, 2):
        run.add(correlation_id, 7, memoryview(b""), 0)
        exchange.size, exchange.requests = exchange.size + 7, exchange.requests + 1
    exchange.answered, exchange.answered_at, exchange.left_at = True, 0.0, 0.0
    if is_slow:
        exchange.apart()
    leaving.write(exchange, b"ten bytes." * 3)
    for taken, expected in ((5, []), (6, [0]), (8, [0]), (1, [0, 1]), (10, [0, 1, 2])):
        stream.take(taken)
        assert left == expected
