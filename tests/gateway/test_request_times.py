"""Where the time of a request goes, by API: each way to begin a request fills the same histograms, and their sums agree."""

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from time import monotonic
from types import SimpleNamespace
from typing import Final

import pytest

from libs.clock import SystemClock
from libs.telemetry.exposition import Format
from libs.telemetry.metrics import Metrics
from libs.wire.api_keys import ApiKey
from libs.wire.messages import create_topics
from services.gateway.handlers import SERVED
from services.gateway.request_meters import SENT_AT_ONCE_S, RequestMeters, api_name
from services.gateway.service import Gateway
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.backlogs import BATCH
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fake_groups import request_body, send
from tests.gateway.fetch_requests import with_file
from tests.gateway.kafka_client import FETCH, PRODUCE, RawClient, fetch_body, produce_body
from tests.gateway.limited_clients import LIMITED, PRODUCED, connections, limit
from tests.gateway.produce_requests import BATCH as SENT
from tests.gateway.whole_rig import RELAYED, Asked, Cluster, fetch, listed, produce, started_cluster
from tests.support.polling import until

STAGES: Final = ("requestqueuetime", "localtime", "remotetime", "responsequeuetime", "responsesendtime")
HEARTBEAT: Final = (ApiKey.HEARTBEAT, 3, request_body(ApiKey.HEARTBEAT, 3, RELAYED[ApiKey.HEARTBEAT](1)))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster() as made:
        yield made


def value(metrics: Metrics, time: str, key: int, part: str = "sum") -> float:
    """The sum, or the count, of one histogram and API."""
    name = f"kafka_network_requestmetrics_{time}_seconds_{part}"
    return metrics.registry.get_sample_value(name, {"api": api_name(key)}) or 0.0


async def completed(metrics: Metrics, key: int, count: int) -> None:
    """Waits until so many requests are counted, and checks that each is counted in each stage, and no time twice."""
    await until(lambda: value(metrics, "totaltime", key, "count") == count)
    assert [value(metrics, time, key, "count") for time in (*STAGES, "throttletime")] == [count] * (len(STAGES) + 1)
    total, rounded = value(metrics, "totaltime", key), count * SENT_AT_ONCE_S + 1e-6
    assert sum(value(metrics, time, key) for time in STAGES) == pytest.approx(total, abs=rounded)
    assert all(value(metrics, time, key) >= 0.0 for time in STAGES)


def test_a_request_with_a_trace_is_the_exemplar_of_each_stage_in_which_it_spent_time() -> None:
    metrics = Metrics("gateway")
    meters = RequestMeters(metrics, SystemClock())
    request = SimpleNamespace(api_key=PRODUCE, throttled_s=0.0, trace_id=0, requests=1)
    request.received_at = request.began_at = 1.0
    request.sent_at, request.answered_at, request.left_at = 1.001, 1.3, 1.3
    meters.completed([request], 1.3)
    assert b"trace_id" not in metrics.render(Format.OPENMETRICS)
    request.trace_id = 0xABC
    meters.completed([request], 1.3)
    shown = [line for line in metrics.render(Format.OPENMETRICS).decode().splitlines() if f'{{trace_id="{0xABC:032x}"}}' in line]
    assert [re.sub(r"\d{10}\.\d+$", "TIME", line) for line in shown] == [
        'kafka_network_requestmetrics_totaltime_seconds_bucket{api="produce",le="0.5"} 2.0 '
        '# {trace_id="00000000000000000000000000000abc"} 0.30000000000000004 TIME',
        'kafka_network_requestmetrics_localtime_seconds_bucket{api="produce",le="0.001"} 2.0 '
        '# {trace_id="00000000000000000000000000000abc"} 0.0009999999999998899 TIME',
        'kafka_network_requestmetrics_remotetime_seconds_bucket{api="produce",le="0.5"} 2.0 '
        '# {trace_id="00000000000000000000000000000abc"} 0.29900000000000015 TIME',
    ]


async def answered(client: RawClient, asked: Asked) -> None:
    send(client, *asked)
    await client.answer()


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (produce(9), ProduceShortcut),
        (produce(9, acks=1), ProduceShortcut),
        (fetch(12, 0), FetchShortcut),
        (listed(7, -1), ListOffsetsShortcut),
        (HEARTBEAT, RelayShortcut),
    ],
    ids=lambda each: each[0].name if isinstance(each, tuple) else "",
)
async def test_a_request_has_the_same_stages_with_its_shortcut_and_before(
    cluster: Cluster, taken: dict[type, int], asked: Asked, kind: type
) -> None:
    metrics, (key, _, _) = cluster.rig.metrics, asked
    client = await cluster.rig.client(1)
    for number in range(1, 6):
        await answered(client, asked)
        await completed(metrics, key, number)
    assert taken[kind] >= 3
    assert value(metrics, "remotetime", key) > 0.0, "another process was asked"


async def test_a_fetch_that_is_answered_from_the_cache_asks_nobody(cluster: Cluster, taken: dict[type, int]) -> None:
    metrics, client = cluster.rig.metrics, await cluster.rig.client(1)
    await answered(client, fetch(12, 0))
    await answered(client, fetch(12, 2))
    asked, remote = len(cluster.rig.nodes[1].fetches), value(metrics, "remotetime", FETCH)
    await answered(client, fetch(12, 4))
    await completed(metrics, FETCH, 3)
    assert taken[FetchShortcut] > 0
    assert (len(cluster.rig.nodes[1].fetches), value(metrics, "remotetime", FETCH)) == (asked, remote)


async def test_a_handler_that_asks_nobody_is_local_and_one_that_waits_is_remote(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.start()
    waiting, answer = asyncio.Event(), asyncio.Event()

    async def handle(*_: object) -> create_topics.CreateTopicsResponse:
        waiting.set()
        await answer.wait()
        return create_topics.CreateTopicsResponse()

    row = SERVED[ApiKey.CREATE_TOPICS]
    monkeypatch.setitem(SERVED, ApiKey.CREATE_TOPICS, dataclasses.replace(row, handle=handle))
    client, client_beside = await rig.client(1), await rig.client(1)
    await answered(client, (ApiKey.API_VERSIONS, 0, b""))
    await completed(rig.metrics, ApiKey.API_VERSIONS, 1)
    assert value(rig.metrics, "remotetime", ApiKey.API_VERSIONS) == 0.0
    assert value(rig.metrics, "localtime", ApiKey.API_VERSIONS) > 0.0
    send(client, ApiKey.CREATE_TOPICS, 4, request_body(ApiKey.CREATE_TOPICS, 4, create_topics.CreateTopicsRequest([])))
    await waiting.wait()
    since = monotonic()
    await answered(client_beside, (ApiKey.API_VERSIONS, 0, b""))
    waited_s = monotonic() - since
    answer.set()
    await client.answer()
    await completed(rig.metrics, ApiKey.CREATE_TOPICS, 1)
    assert value(rig.metrics, "remotetime", ApiKey.CREATE_TOPICS) >= waited_s


async def test_a_request_without_an_answer_is_counted(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, SENT)])], acks=0))
    await completed(rig.metrics, PRODUCE, 1)


async def test_what_waits_behind_a_long_poll_is_queued(rig: Rig) -> None:
    gateway = await rig.start()
    node, client = rig.nodes[1], await rig.client(1)
    queued = "kafka_network_requestchannel_requestqueuesize"
    node.holding_fetches = True
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000))
    await until(lambda: node.parked_fetches)
    client.ask(int(ApiKey.API_VERSIONS), 0, b"")
    client.ask(int(ApiKey.API_VERSIONS), 0, b"")
    await until(lambda: rig.metrics.registry.get_sample_value(queued) == 2)
    since = monotonic()
    with_file(rig, 100)
    waited_s = monotonic() - since
    node.answer_fetch(node.parked_fetches.pop())
    await until(lambda: rig.metrics.registry.get_sample_value(queued) == 0)
    await completed(rig.metrics, ApiKey.API_VERSIONS, 2)
    assert value(rig.metrics, "requestqueuetime", ApiKey.API_VERSIONS) >= 2 * waited_s
    node.holding_fetches = True
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000))
    client.ask(int(ApiKey.API_VERSIONS), 0, b"")
    await until(lambda: rig.metrics.registry.get_sample_value(queued) == 1)
    await client.close()
    await until(lambda: not connections(gateway))
    assert rig.metrics.registry.get_sample_value(queued) == 0


async def test_an_answer_that_waits_for_an_earlier_one_is_queued(rig: Rig) -> None:
    await rig.start()
    slow, client = rig.nodes[1], await rig.client(1)
    slow.holding = True
    for partition in (0, 2):  # of node 1, which is slow, and of node 2
        client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(partition, SENT)])]))
    await until(lambda: slow.held and rig.nodes[2].stored)
    slow.holding = False
    slow.release(0)
    await client.answer()
    await client.answer()
    await completed(rig.metrics, PRODUCE, 2)
    assert value(rig.metrics, "responsequeuetime", PRODUCE) > 0.0


async def test_a_wait_for_a_leader_is_no_work_of_the_gateway(rig: Rig) -> None:
    gateway = await rig.start()
    await rig.lead(0, -1, 1)
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    client = await rig.client(1)
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, SENT)])]))
    await until(lambda: gateway.meters.parked_bytes)
    since = monotonic()
    await rig.lead(0, 2, 2)
    waited_s = monotonic() - since
    await client.answer()
    await completed(rig.metrics, PRODUCE, 1)
    assert value(rig.metrics, "remotetime", PRODUCE) >= waited_s


async def test_an_answer_that_its_client_does_not_read_is_being_sent(rig: Rig) -> None:
    gateway = await rig.start()
    with_file(rig, 32 * BATCH * 1024)
    client = await RawClient.connect(rig.port_base + 1, limit=1 << 16)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    await until(lambda: gateway.meters.bytes_out > 0)
    since = monotonic()
    assert value(rig.metrics, "totaltime", FETCH, "count") == 0
    unread_s = monotonic() - since
    await client.answer()
    await completed(rig.metrics, FETCH, 1)
    assert value(rig.metrics, "responsesendtime", FETCH) >= unread_s
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]))
    await until(lambda: rig.nodes[1].fetches[1:])
    await client.close()  # without a read
    await completed(rig.metrics, FETCH, 2)


async def test_of_answers_in_a_full_socket_those_that_the_kernel_took_are_counted(rig: Rig) -> None:
    gateway = await rig.start()
    node, client, asked = rig.nodes[1], await RawClient.connect(rig.port_base + 1, limit=1 << 10), 1
    body = produce_body(9, [(TOPIC, [(0, SENT)])])
    client.ask(PRODUCE, 9, body)
    await client.answer()
    size = gateway.meters.bytes_out
    while unread(gateway) < 100_000:
        for _ in range(200):
            client.ask(PRODUCE, 9, body)
        asked += 200
        await until(lambda: len(node.stored) == asked)  # noqa: B023
    await until(lambda: gateway.meters.bytes_out == asked * size)
    taken = gateway.meters.bytes_out - unread(gateway)
    await until(lambda: value(rig.metrics, "totaltime", PRODUCE, "count") == taken // size)  # at the end of the loop's iteration
    assert taken // size < asked
    for _ in range(asked - 1):
        await client.answer()
    await completed(rig.metrics, PRODUCE, asked)
    await client.close()


def unread(gateway: Gateway) -> int:
    """Bytes of answers that the kernel has not taken."""
    return sum(int(str(each.debug()["unread_bytes"])) for each in connections(gateway))


async def test_the_time_for_which_a_client_is_told_to_wait_is_counted(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    body = produce_body(9, [(TOPIC, [(0, SENT)])])
    await client.produce(9, body)
    await completed(rig.metrics, PRODUCE, 1)
    assert value(rig.metrics, "throttletime", PRODUCE) == 0.0
    await limit(rig, gateway, PRODUCED)
    client.ask(PRODUCE, 9, body, client_id=LIMITED)
    await client.answer()
    await completed(rig.metrics, PRODUCE, 2)
    assert value(rig.metrics, "throttletime", PRODUCE) > 1.0
