"""Which requests have a trace, whichever way they begin, and what other processes are told of it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.rpc.contracts.storage import Fetched as Result
from libs.rpc.transport import socket_stream
from libs.telemetry.tracing.conventions import DESTINATION_NAME, DISK_WAIT_S, REASON
from libs.telemetry.tracing.ids import RpcRequest, derived_context
from libs.telemetry.tracing.sampling import FAILED_PER_SECOND, Reason, TraceRules
from libs.telemetry.tracing.span import Span
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fake_groups import request_body, send
from tests.gateway.fetch_requests import with_file
from tests.gateway.kafka_client import FETCH, RawClient, fetch_body, frame, produce_body
from tests.gateway.limited_clients import LIMITED, PRODUCED, limit, unlimit
from tests.gateway.produce_requests import BATCH, PRODUCE_ONE, plain
from tests.gateway.whole_rig import RELAYED, Asked, Cluster, fetch, listed, produce
from tests.support.polling import until
from tests.support.ports import reserve_ports

ALL = TraceRules(sample_ratio=1.0, slow_ms=600_000, spans_per_second=1_000_000)
SLOW = TraceRules(sample_ratio=0.0, slow_ms=50, spans_per_second=1_000_000)
QUICK = TraceRules(sample_ratio=0.0, slow_ms=600_000, spans_per_second=1_000_000)
"""Nothing is slow, however busy this machine is."""
TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-%s"


def traced(flags: bytes = b"01") -> bytes:
    return bytes(build_batch([Record(None, b"one", 0, [("traceparent", TRACEPARENT % flags)])]))


def roots(rig: Rig) -> list[Span]:
    """Of traces at the gateway. Only they name their reason."""
    return [span for span in rig.spans if REASON in span.attributes]


def reasons(rig: Rig) -> list[object]:
    return [span.attributes[REASON] for span in roots(rig)]


def produce_frame(number: int) -> bytes:
    return frame(0, 9, number, produce_body(9, [(TOPIC, [(0, plain(number))])]))


async def passes(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = loop.time() + seconds
    await until(lambda: loop.time() >= over)


async def held(rig: Rig, client: RawClient, seconds: float) -> None:
    """A Produce that its leader holds for so long."""
    node = rig.nodes[1]
    node.holding = True
    client.ask(0, 9, PRODUCE_ONE)
    await until(lambda: bool(node.held))
    await passes(seconds)
    node.release(0)
    node.holding = False
    await client.answer(0, 9)


# --- decided in advance -----------------------------------------------------------------------------------------------


async def test_a_sampled_produce_tells_its_leader(rig: Rig) -> None:
    rig.trace_rules = ALL
    await rig.start()
    client = await rig.client(1)
    await client.produce(9, PRODUCE_ONE)
    (root,) = roots(rig)
    assert [span.name for span in rig.spans] == [f"Produce {TOPIC}", "parse", "storage.append", "answer", "send"]
    call = next(span for span in rig.spans if span.name == "storage.append")
    assert rig.nodes[1].append_traces == [[(0, call.context)]]
    assert (root.attributes[REASON], root.parent_id) == (Reason.FRACTION, None)
    assert root.attributes[DESTINATION_NAME] == TOPIC


async def test_the_client_s_span_is_the_parent_of_the_request(rig: Rig) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    for _ in range(3):  # the later ones by a shortcut
        await client.produce(9, produce_body(9, [(TOPIC, [(0, traced())])]))
    assert reasons(rig) == [Reason.CLIENT] * 3
    for root in roots(rig):
        assert f"{root.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert f"{root.parent_id:016x}" == "00f067aa0ba902b7"
    assert len({root.context.span_id for root in roots(rig)}) == 3


@pytest.mark.parametrize("batch", [traced(b"00"), traced(b"zz"), BATCH], ids=["not sampled", "malformed", "none"])
async def test_a_client_that_asks_for_no_trace_gets_none(rig: Rig, batch: bytes) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    for _ in range(3):
        await client.produce(9, produce_body(9, [(TOPIC, [(0, batch)])]))
    assert not list(rig.spans)
    assert rig.nodes[1].append_traces == [[], [], []]


async def test_an_append_of_several_clients_carries_eight_contexts_at_most(rig: Rig) -> None:
    """Their requests come in one read, so they leave in one RPC request."""
    rig.trace_rules = ALL
    await rig.start()
    client = await rig.client(1)
    await client.produce(9, PRODUCE_ONE)
    client.send(b"".join([produce_frame(number) for number in range(12)]))
    for _ in range(12):
        await client.answer(0, 9)
    node = rig.nodes[1]
    assert max(len(contexts) for contexts in node.append_traces) == 8
    assert len(roots(rig)) == 13
    assert sum(append.joined for append in node.appends) >= 1


# --- decided afterwards -----------------------------------------------------------------------------------------------


async def test_a_slow_produce_has_the_ids_that_its_leader_derives(rig: Rig) -> None:
    rig.trace_rules = SLOW
    await rig.start()
    await held(rig, await rig.client(1), 0.06)
    (root,) = roots(rig)
    call = next(span for span in rig.spans if span.name == "storage.append")
    derived = derived_context(RpcRequest("gateway-1-1", "storage-1-1", 1))
    assert root.attributes[REASON] == Reason.SLOW
    assert root.context.trace_id == derived.trace_id
    assert call.context.span_id == derived.span_id
    assert not any(span.context.sampled for span in rig.spans), "nobody decided in advance"
    assert rig.nodes[1].append_traces == [[]]


async def test_slow_produces_that_share_an_append_have_traces_of_their_own(rig: Rig) -> None:
    rig.trace_rules = SLOW
    await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    await client.produce(9, PRODUCE_ONE)
    before = len(roots(rig))
    node.holding = True
    client.send(b"".join([produce_frame(number) for number in range(3)]))
    await until(lambda: sum(len(append.partitions) for append in node.appends) == 4)
    await passes(0.06)
    while node.held:
        node.release(0)
    for _ in range(3):
        await client.answer(0, 9)
    slow = [root.context.trace_id for root in roots(rig)[before:]]
    assert len(set(slow)) == 3
    joined = {(2 + at, part) for at, append in enumerate(node.appends[1:]) for part in range(len(append.partitions))}
    expected = {derived_context(RpcRequest("gateway-1-1", "storage-1-1", *each)).trace_id for each in joined}
    assert set(slow) == expected


async def test_a_request_that_is_quick_and_sound_has_no_trace(rig: Rig) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    for _ in range(5):
        await client.produce(9, PRODUCE_ONE)
    assert not list(rig.spans)


@pytest.mark.parametrize(("waited_ms", "is_slow"), [(600_000, False), (0, True)])
async def test_a_long_poll_is_not_slow_while_it_waits_as_asked(rig: Rig, waited_ms: int, is_slow: bool) -> None:
    rig.trace_rules = SLOW
    await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    with_file(rig, 30)
    node.holding_fetches, node.fetch_result, node.fetch_waited_ms = True, Result(0, 9, 9, 0), waited_ms
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 9)])], max_wait_ms=500))
    await until(lambda: bool(node.parked_fetches))
    await passes(0.06)
    node.answer_fetch(node.parked_fetches.pop())
    await client.answer(FETCH, 12)
    assert reasons(rig) == [Reason.SLOW] * is_slow


async def test_a_send_of_what_is_not_in_memory_says_how_long_it_waited_for_the_disk(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.trace_rules = ALL
    await rig.start(sendfile_bytes_min=0)
    client = await rig.client(1)
    with_file(rig, 30_000)
    for is_cached in (True, False):
        monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, length, answer=is_cached: answer)
        await client.fetch(12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    await until(lambda: len(roots(rig)) == 2)
    warm, cold = [span.attributes for span in rig.spans if span.name == "send"]
    assert warm == {}
    waited_s = cold[DISK_WAIT_S]
    assert isinstance(waited_s, float)
    assert waited_s > 0


async def test_requests_whose_client_makes_them_fail_have_traces_up_to_a_rate(rig: Rig) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].refuse_with = ErrorCode.MESSAGE_TOO_LARGE
    began = asyncio.get_running_loop().time()
    for _ in range(40):
        await client.produce(9, PRODUCE_ONE)
    seconds = int(asyncio.get_running_loop().time() - began) + 1
    assert set(reasons(rig)) == {Reason.FAILED}
    assert 1 <= len(roots(rig)) <= (seconds + 1) * FAILED_PER_SECOND
    assert {root.error for root in roots(rig)} == {"MESSAGE_TOO_LARGE"}


async def test_every_request_that_the_cluster_fails_has_a_trace(rig: Rig) -> None:
    rig.trace_rules = QUICK
    await rig.start()
    client = await rig.client(1)
    rig.nodes[1].refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(40):
        await client.produce(9, PRODUCE_ONE)
    assert [root.error for root in roots(rig)] == ["NOT_ENOUGH_REPLICAS"] * 40


async def test_a_slow_request_whose_client_gives_up_has_a_trace(rig: Rig) -> None:
    rig.trace_rules = SLOW
    gateway = await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    node.holding = True
    client.ask(0, 9, PRODUCE_ONE)
    await until(lambda: bool(node.held))
    await passes(0.06)
    await client.close()
    await until(lambda: not len(gateway.connections))
    (root,) = roots(rig)
    assert (root.error, root.attributes[REASON]) == ("connection ended", Reason.SLOW)
    assert "storage.append" in [span.name for span in rig.spans]


async def test_a_request_of_an_api_that_is_not_served_has_a_trace_where_it_waited_for_long(rig: Rig) -> None:
    rig.trace_rules = SLOW
    await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    node.holding = True
    client.ask(0, 9, PRODUCE_ONE)
    client.ask(9_999, 0, b"")
    await until(lambda: bool(node.held))
    await passes(0.06)
    node.release(0)
    await client.answer(0, 9)
    assert await client.ended()
    assert rig.closed("malformed") + rig.closed("api") == 1
    assert {root.name for root in roots(rig)} == {f"Produce {TOPIC}", "Unknown"}


async def test_a_long_poll_whose_client_leaves_has_no_trace(rig: Rig) -> None:
    rig.trace_rules = QUICK
    gateway = await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 9)])], max_wait_ms=500))
    await until(lambda: bool(node.parked_fetches))
    await passes(0.06)
    await client.close()
    await until(lambda: not len(gateway.connections))
    assert not list(rig.spans)


async def test_the_fraction_draws_nothing_beyond_the_cap(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=1.0, spans_per_second=10)
    await rig.start()
    client = await rig.client(1)
    began = asyncio.get_running_loop().time()
    for _ in range(40):
        await client.produce(9, PRODUCE_ONE)
    seconds = int(asyncio.get_running_loop().time() - began) + 1
    told = [contexts for contexts in rig.nodes[1].append_traces if contexts]
    assert 1 <= len(told) == len(roots(rig)) <= 2 * seconds


async def test_a_process_without_an_allowance_makes_no_spans(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=1.0, spans_per_second=0)
    await rig.start()
    client = await rig.client(1)
    await client.produce(9, produce_body(9, [(TOPIC, [(0, traced())])]))
    await held(rig, client, 0.06)
    assert not list(rig.spans)
    assert rig.nodes[1].append_traces == [[], []]


async def test_a_produce_that_waits_for_its_quota_shows_the_wait(rig: Rig) -> None:
    rig.trace_rules = ALL
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    first, second = await rig.client(1), await rig.client(1)
    body = produce_body(9, [(TOPIC, [(0, BATCH)])])
    first.ask(0, 9, body, client_id=LIMITED)
    await first.answer(0, 9)
    second.ask(0, 9, body, client_id=LIMITED)
    await until(lambda: any(connection.is_muted for connection in gateway.connections))
    await passes(0.05)
    await unlimit(rig, gateway)
    await second.answer(0, 9)
    assert "throttled" in [span.name for span in rig.spans]


# --- every way to begin -----------------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    ports, directory = reserve_ports(10), Path(tempfile.mkdtemp(prefix="pst"))
    made = Cluster(ports, directory)
    made.rig.trace_rules = ALL
    try:
        await made.start(shortcuts=True)
        yield made
    finally:
        await made.stop()
        ports.release()
        shutil.rmtree(directory)


def relayed(number: int, key: ApiKey = ApiKey.OFFSET_COMMIT, version: int = 8) -> Asked:
    return key, version, request_body(key, version, RELAYED[key](number))


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([produce(9)] * 4, ProduceShortcut),
        ([fetch(12, offset) for offset in (0, 2, 4, 6, 8, 30, 32, 10)], FetchShortcut),
        ([fetch(12, offset) for offset in (0, 30, 2, 28, 4)], FetchShortcut),
        ([listed(7, -1)] * 4, ListOffsetsShortcut),
        ([relayed(number) for number in range(4)], RelayShortcut),
    ],
    ids=["produce", "sequential fetch", "jumping fetch", "offsets", "relayed"],
)
async def test_no_shortcut_goes_around_traces(cluster: Cluster, taken: dict[type, int], script: list[Asked], kind: type) -> None:
    client = await cluster.rig.client(1)
    for number, (key, version, body) in enumerate(script):
        send(client, key, version, body, correlation_id=number)
        await client.answer()
    assert taken[kind] >= len(script) - 2
    assert len(roots(cluster.rig)) == len(script)


async def test_a_heartbeat_has_no_trace_by_chance(cluster: Cluster) -> None:
    """A member sends one every three seconds, all its life. Slow and failed ones have traces, as other requests."""
    client = await cluster.rig.client(1)
    for key, version in ((ApiKey.HEARTBEAT, 4), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), (ApiKey.OFFSET_COMMIT, 8)):
        send(client, *relayed(1, key, version), correlation_id=1)
        await client.answer()
    assert [root.name for root in roots(cluster.rig)] == ["OffsetCommit some group"]


async def test_a_sampled_request_that_is_slow_tells_that_it_was_slow(rig: Rig) -> None:
    rig.trace_rules = TraceRules(sample_ratio=1.0, slow_ms=50, spans_per_second=1_000_000)
    await rig.start()
    client, node = await rig.client(1), rig.nodes[1]
    node.holding = True
    client.send(produce_frame(1))
    await until(lambda: bool(node.appends))
    await passes(0.06)
    node.release(0)
    await client.answer(0, 9)
    assert reasons(rig)[-1] == Reason.SLOW
