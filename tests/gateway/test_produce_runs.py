"""Produces that share a read are answered, stored, counted and traced as if each had come alone."""

import gc
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from libs.rpc.contracts.storage import AppendReply
from libs.telemetry.tracing.conventions import REASON
from libs.telemetry.tracing.sampling import Reason, TraceRules
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.primitives import Reader
from services.gateway.net.connection import Connection
from services.gateway.requests.request_log import LOGGED
from services.gateway.shortcuts import produce_shortcut
from services.gateway.shortcuts.produce_run import ProduceRun
from services.gateway.shortcuts.produce_shortcut import RepeatedProduce
from tests.gateway.conftest import Rig
from tests.gateway.fake_node import FakeNode
from tests.gateway.kafka_client import METADATA, PRODUCE, Produced, RawClient, frame, produce_body, read_produced
from tests.gateway.limited_clients import LIMITED, PRODUCED, limit
from tests.gateway.produce_requests import PRODUCE_ONE, idempotent, plain
from tests.gateway.whole_rig import topic_in, versions
from tests.support.polling import until
from tests.support.ports import Reservation, reserve_ports

Before = Callable[[Rig], None]
Burst = list[tuple[int, int, bytes]]
"""Requests of one write: API, version, body."""
Script = list[Burst | Before]
QUICK = TraceRules(sample_ratio=0.0, slow_ms=600_000, spans_per_second=1_000_000)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the runs that were answered as a whole."""
    lengths: list[int] = []
    stored = ProduceRun.stored

    def noted(self: ProduceRun, results: list[tuple[int, int, int]]) -> None:
        lengths.append(len(results))
        stored(self, results)

    monkeypatch.setattr(ProduceRun, "stored", noted)
    return lengths


def request(version: int, number: int, *, partition: int = 0, acks: int = -1, batch: bytes = b"") -> tuple[int, int, bytes]:
    topic = topic_in(ApiKey.PRODUCE, version)
    body = produce_body(version, [(topic, [(partition, batch or plain(number))])], acks=acks, timeout_ms=60_000)
    return PRODUCE, version, body


def frames(burst: Burst, first_id: int = 0) -> bytes:
    return b"".join(frame(*asked[:2], first_id + place, asked[2]) for place, asked in enumerate(burst))


async def answered(client: RawClient, burst: Burst, first_id: int = 0) -> list[bytes]:
    client.send(frames(burst, first_id))
    return [await client.frame() for _ in burst]


async def run_script(script: Script, *, shortcuts: bool, ports: Reservation) -> tuple[list[bytes], dict[int, list[bytes]]]:
    """The answers of one connection, and what each partition holds."""
    directory = Path(tempfile.mkdtemp(prefix="pst"))
    rig = Rig(ports, directory)
    received: list[bytes] = []
    rig.trace_rules = QUICK
    try:
        gateway = await rig.start(shortcuts=shortcuts)
        await until(lambda: all(gateway.data_path.nodes.ready(number) is not None for number in rig.nodes))
        client = await rig.client(1)
        for step in script:
            if callable(step):
                step(rig)
            else:
                received += await answered(client, step, len(received) + 1)
        stored: dict[int, list[bytes]] = {}
        for node in rig.nodes.values():
            for partition, batch in node.stored:
                stored.setdefault(partition, []).append(batch)
        return received, stored
    finally:
        await rig.stop()
        shutil.rmtree(directory)


async def same_both_ways(script: Script) -> None:
    ports = reserve_ports(10)
    try:
        alone = await run_script(script, shortcuts=False, ports=ports)
        joined = await run_script(script, shortcuts=True, ports=ports)
    finally:
        ports.release()
    assert joined == alone


def refuse(error: int = 0, *, numbers: tuple[int, ...] = ()) -> Before:
    def change(rig: Rig) -> None:
        for node in rig.nodes.values():
            node.refuse_with, node.refused_batches = error, frozenset(plain(number) for number in numbers)

    return change


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
async def test_answers_are_the_same_byte_for_byte(version: int, whole: list[int]) -> None:
    def burst(*partitions: int, acks: int = -1) -> Burst:
        return [request(version, number, partition=partition, acks=acks) for number, partition in enumerate(partitions)]

    metadata = (METADATA, 1, b"\xff\xff\xff\xff")
    await same_both_ways(
        [
            burst(0),
            burst(0, 0, 0, 0, 0),
            burst(0, 0, 1, 0, 0, 2, 2, 1, 1),
            burst(1, 1, 9, 1, 1),
            burst(0, 0, acks=1) + burst(0, 0, 0),
            [*burst(0, 0), metadata, *burst(0, 0)],
            [request(version, number, batch=idempotent(number)) for number in range(4)],
            refuse(numbers=(1,)),
            burst(0, 0, 0, 0),
            refuse(ErrorCode.MESSAGE_TOO_LARGE),
            burst(0, 0, 0),
            refuse(),
            burst(0, 0, 0),
        ]
    )
    assert 5 in whole
    assert 4 in whole, "those of an idempotent producer"


@pytest.mark.parametrize("seed", range(4))
async def test_any_mixture_is_answered_the_same(seed: int, whole: list[int]) -> None:
    random = Random(seed)
    script: Script = [[request(9, 0)]]
    for number in range(40):
        if random.random() < 0.3:
            script.append(refuse(numbers=tuple(100 * number + at for at in range(8) if random.random() < 0.2)))
        partitions = random.choices((0, 1, 2, 9), (8, 2, 2, 1), k=random.randint(1, 12))
        script.append([request(9, 100 * number + at, partition=each, acks=-1) for at, each in enumerate(partitions)])
    await same_both_ways(script)
    assert len(whole) > 3


async def test_a_batch_that_overtakes_a_returned_one_of_its_producer_joins_nobody(whole: list[int]) -> None:
    def come_again(rig: Rig) -> None:
        for node in rig.nodes.values():
            node.refused_batches = frozenset([idempotent(0)])

    await same_both_ways(
        [
            [request(9, 0)],
            come_again,
            [request(9, 1, batch=idempotent(0))],
            [request(9, 2), request(9, 3, batch=idempotent(1)), request(9, 4)],
        ]
    )


def connection_of(rig: Rig) -> Connection:
    assert rig.gateway is not None
    (connection,) = rig.gateway.connections
    return connection


def produced_in(answer: bytes) -> Produced:
    """What an answer of version 9 says of its only partition."""
    (produced,), _ = read_produced(Reader(memoryview(answer[5:])), 9)
    return produced


async def begun(rig: Rig, *, requests: int = 5, holding: bool = True, **changes: object) -> tuple[RawClient, FakeNode, Burst]:
    """A burst that its leader holds, as one append."""
    if rig.gateway is None:
        await rig.start(**changes)
    node, client = rig.nodes[1], await rig.client(1)
    await answered(client, [request(9, 0)])
    node.holding = holding
    burst = [request(9, number) for number in range(requests)]
    client.send(frames(burst, 1))
    if holding:
        await until(lambda: sum(len(append.partitions) for append in node.appends) == requests + 1)
    return client, node, burst


async def test_a_run_is_one_append_whose_offsets_are_each_request_s_own(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    client, node, _ = await begun(rig)
    assert len(node.held) == 1
    node.release(0)
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4, 5]
    assert [produced_in(each).base_offset for each in answers] == [1, 2, 3, 4, 5]
    assert whole == [5]
    assert [batch for _, batch in node.stored[1:]] == [plain(number) for number in range(5)]


async def test_each_request_of_a_run_is_counted(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    client, node, _ = await begun(rig)
    connection = connection_of(rig)
    assert connection.debug()["outstanding"] == 5
    node.release(0)
    for _ in range(5):
        await client.frame()
    assert whole == [5]
    for stage in ("totaltime", "localtime", "remotetime", "responsequeuetime", "responsesendtime", "throttletime"):
        name = f"kafka_network_requestmetrics_{stage}_seconds_count"
        await until(lambda name=name: rig.metrics.registry.get_sample_value(name, {"api": "produce"}) == 6)  # type: ignore[misc]
    assert connection.debug()["outstanding"] == 0
    assert connection.queued_bytes == 0


async def test_a_run_counts_against_the_requests_that_a_connection_may_have(rig: Rig) -> None:
    rig.trace_rules = QUICK
    client, node, _ = await begun(rig, connection_requests_max=5)
    connection = connection_of(rig)
    await until(lambda: connection.debug()["paused"] is True)
    node.release(0)
    for _ in range(5):
        await client.frame()
    await until(lambda: not connection.debug()["paused"])


async def test_a_run_ends_at_its_bounds(rig: Rig, whole: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    await answered(client, [request(9, 0)])
    monkeypatch.setattr(produce_shortcut, "REQUESTS_MAX", 3)
    await answered(client, [request(9, number) for number in range(7)])
    assert whole == [3, 3]
    whole.clear()
    monkeypatch.setattr(produce_shortcut, "BYTES_MAX", 2 * len(frames([request(9, 0)])))
    await answered(client, [request(9, number) for number in range(5)])
    assert whole == [2, 2]


async def test_a_client_that_hangs_up_leaves_no_part_of_a_run_behind(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    client, node, _ = await begun(rig)
    await client.close()
    assert rig.gateway is not None
    await until(lambda: not list(rig.gateway.connections))  # type: ignore[union-attr]
    node.release(0)
    node.holding = False
    other = await rig.client(1)
    await answered(other, [request(9, 9)])
    assert whole == []
    assert rig.gateway.connections.requests.used == 0


@pytest.mark.parametrize("identified", [True, False])
async def test_a_run_whose_leader_is_replaced_is_sent_on_or_answered_one_by_one(rig: Rig, identified: bool) -> None:
    """Batches with a producer id go to the next leader, in order. Of others only the former leader knows."""
    rig.trace_rules = QUICK
    gateway = await rig.start()
    node, client = rig.nodes[1], await rig.client(1)
    await until(lambda: gateway.data_path.nodes.ready(2) is not None)
    make = idempotent if identified else plain
    await answered(client, [request(9, 0)])
    node.holding = True
    client.send(frames([request(9, number, batch=make(number)) for number in range(5)], 1))
    await until(lambda: sum(len(append.partitions) for append in node.appends) == 6)
    await rig.lead(0, 2, 1)
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4, 5]
    assert [batch for _, batch in rig.nodes[2].stored] == ([make(number) for number in range(5)] if identified else [])


async def test_a_request_that_waits_for_a_former_leader_is_answered_though_one_behind_it_has_been(rig: Rig) -> None:
    """Of a run whose leader is replaced, a batch with a producer id is stored by the next leader. The former one tells of the
    batch without."""
    rig.trace_rules = QUICK
    gateway = await rig.start()
    node, client = rig.nodes[1], await rig.client(1)
    await until(lambda: gateway.data_path.nodes.ready(2) is not None)
    await answered(client, [request(9, 0)])
    node.holding = True
    client.send(frames([request(9, 1), request(9, 2, batch=idempotent(0))], 1))
    await until(lambda: len(node.held) == 1)
    await rig.lead(0, 2, 1)
    await until(lambda: rig.nodes[2].stored == [(0, idempotent(0))])
    node.release(0)
    answers = [await client.frame() for _ in range(2)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2]
    assert [produced_in(each).error for each in answers] == [0, 0]


async def test_a_connection_that_ends_as_its_first_run_is_answered_is_no_failure_of_the_second(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when its client leaves too many answers unread."""
    rig.trace_rules = QUICK
    monkeypatch.setattr(produce_shortcut, "REQUESTS_MAX", 3)
    _, node, _ = await begun(rig, requests=6)
    stored = ProduceRun.stored

    def ending(self: ProduceRun, results: list[tuple[int, int, int]]) -> None:
        stored(self, results)
        connection_of(rig).close("unread")

    monkeypatch.setattr(ProduceRun, "stored", ending)
    node.release(0)
    await until(lambda: rig.closed("unread") == 1)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_leader_that_dies_within_a_run_leaves_each_request_its_answer(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    client, node, _ = await begun(rig)
    await node.stop()
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4, 5]
    assert {produced_in(each).error for each in answers} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert whole == []


async def test_requests_of_a_slow_run_are_answered_though_its_leader_tells_of_none_of_them(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=0.0, slow_ms=1, spans_per_second=1_000_000)
    client, node, _ = await begun(rig)
    gateway, connection = rig.gateway, connection_of(rig)
    assert gateway is not None
    await until(lambda: gateway.data_path.now() - connection.last_active > 0.005)
    node.held.pop(0).reply(AppendReply(()))
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(each[:4], "big") for each in answers] == [1, 2, 3, 4, 5]
    assert {produced_in(each).error for each in answers} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_each_request_of_a_slow_run_has_a_trace(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=0.0, slow_ms=1, spans_per_second=1_000_000)
    client, node, _ = await begun(rig)
    since = len([span for span in rig.spans if REASON in span.attributes])
    gateway, connection = rig.gateway, connection_of(rig)
    assert gateway is not None
    await until(lambda: gateway.data_path.now() - connection.last_active > 0.005)
    node.release(0)
    for _ in range(5):
        await client.frame()
    await until(lambda: len([span for span in rig.spans if REASON in span.attributes]) == since + 5)
    roots = [span for span in rig.spans if REASON in span.attributes][since:]
    assert {span.attributes[REASON] for span in roots} == {Reason.SLOW}
    assert len({span.context.span_id for span in roots}) == 5
    assert len({span.context.trace_id for span in roots}) == 5, "each is another part of the append"


async def test_each_request_of_a_slow_run_whose_client_hangs_up_has_a_trace(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=0.0, slow_ms=1, spans_per_second=1_000_000)
    client, _, _ = await begun(rig)
    since = len([span for span in rig.spans if REASON in span.attributes])
    gateway, connection = rig.gateway, connection_of(rig)
    assert gateway is not None
    await until(lambda: gateway.data_path.now() - connection.last_active > 0.005)
    await client.close()
    await until(lambda: len([span for span in rig.spans if REASON in span.attributes]) == since + 5)
    roots = [span for span in rig.spans if REASON in span.attributes][since:]
    assert len({span.context.trace_id for span in roots}) == 5, "each is another part of the append"


@pytest.mark.parametrize("ratio", [1.0, 0.3])
async def test_a_request_that_is_traced_is_in_no_run(rig: Rig, ratio: float, whole: list[int]) -> None:
    rig.trace_rules = TraceRules(sample_ratio=ratio, slow_ms=600_000, spans_per_second=1_000_000)
    client, node, _ = await begun(rig, holding=False, requests=40)
    for _ in range(40):
        await client.frame()
    traced = [span for span in rig.spans if REASON in span.attributes]
    assert len(traced) + sum(whole) <= 41
    assert (len(traced) == 41) == (ratio == 1.0)
    calls = {span.context for span in rig.spans if span.name == "storage.append"}
    assert {context for append in node.append_traces for _, context in append} <= calls


async def test_each_request_of_a_run_is_paid_for(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED, 1e9)
    client, one = await rig.client(1), frame(PRODUCE, 9, 1, PRODUCE_ONE, LIMITED)
    for _ in range(3):
        client.send(one)
        await client.frame()
    (connection,) = gateway.connections
    slice_ = connection.kept_limits.produce
    assert slice_ is not None
    slice_.granted(1e8, 0.0, gateway.data_path.now())
    before, length = slice_.tokens, len(one) - 4
    client.send(one * 6)
    for _ in range(6):
        await client.frame()
    assert sum(whole) >= 2, "they are in a run"
    assert before - slice_.tokens == pytest.approx(6 * length)


async def test_nothing_joins_while_each_request_is_logged(rig: Rig, whole: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    monkeypatch.setattr(LOGGED, "debug", True)
    client = await rig.client(1)
    await answered(client, [request(9, 0)])
    await answered(client, [request(9, number) for number in range(5)])
    assert whole == []


async def test_of_a_run_that_was_answered_no_batch_is_left_that_holds_its_receive_buffer(rig: Rig, whole: list[int]) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    await answered(client, [request(9, 0)])
    gc.collect()
    gc.disable()
    try:
        await answered(client, [request(9, number) for number in range(5)])
        assert whole == [5]
        assert not [each for each in gc.get_objects() if isinstance(each, RepeatedProduce)]
    finally:
        gc.enable()
