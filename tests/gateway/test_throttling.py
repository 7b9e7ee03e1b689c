"""Clients over a quota are told so, and then not read for a while. No shortcut goes around that.

Quotas here are so small that any debt lasts for longer than a test: a connection is muted until the quota is removed.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.client_quotas import FETCH as CONSUMING
from libs.cluster.client_quotas import PRODUCE as PRODUCING
from libs.cluster.client_quotas import REQUEST
from libs.cluster.records import ClientQuotas, QuotaEntity
from libs.rpc.contracts.quotas import Entity
from libs.wire.api_keys import ApiKey
from libs.wire.messages import create_topics
from libs.wire.primitives import Reader
from services.gateway.core.quota_slice import QuotaSlice
from services.gateway.handlers import SERVED
from services.gateway.requests import client_quotas
from services.gateway.requests.client_quotas import MUTED_S_MAX
from services.gateway.service import Gateway
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fake_groups import request_body, send
from tests.gateway.fetch_requests import VERSIONS, name_of, with_file
from tests.gateway.kafka_client import FETCH, PRODUCE, RawClient, fetch_body, frame, produce_body
from tests.gateway.limited_clients import (
    CONSUMED,
    LIMITED,
    LONGEST_MS,
    OTHER,
    PRODUCED,
    TINY,
    WORKED,
    connections,
    fetched,
    limit,
    muted,
    produced,
    unlimit,
)
from tests.gateway.produce_requests import BATCH as SENT
from tests.gateway.produce_requests import PRODUCE_ONE
from tests.gateway.whole_rig import NAMED_IN_A_LIST, RELAYED, Asked, Cluster, fetch, listed, produce, started_cluster, versions
from tests.support.polling import until

RATE = 1_000_000
"""A limit far above what these clients send."""


async def granted(gateway: Gateway, client: RawClient) -> QuotaSlice:
    """The slice of the limited client, which has a second of `RATE`, after a Produce."""
    await produced(client)
    now = gateway.data_path.now()
    found = gateway.connections.quotas.slices.spend((PRODUCING, "", LIMITED.decode()), RATE, 0.0, now)
    found.granted(RATE, 0.0, now)
    return found


@pytest.mark.parametrize("version", [3, 8, 9, 13])
async def test_a_produce_over_its_quota_is_stored_told_and_followed_by_silence(rig: Rig, version: int) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    client.ask(PRODUCE, version, produce_body(version, [(name_of(version), [(0, SENT)])]), client_id=LIMITED)
    _, reader = await client.answer(PRODUCE, version)
    assert Reader(reader.view[-5 if version >= 9 else -4 :]).int32() == LONGEST_MS
    assert len(rig.nodes[1].stored) == 1
    assert muted(gateway) == [True]
    client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await client.drain()
    await unlimit(rig, gateway)
    await client.answer(PRODUCE, 9)
    assert len(rig.nodes[1].stored) == 2


async def test_what_a_muted_client_sends_waits_in_its_socket(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client, bystander = await rig.client(1), await rig.client(1)
    await produced(client)
    for _ in range(3):
        client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await client.drain()
    for _ in range(3):  # the gateway has looked at its sockets meanwhile
        assert await produced(bystander, client_id=OTHER) == 0
    assert len(rig.nodes[1].stored) == 4


async def test_who_sends_several_requests_at_a_time_is_muted_by_the_second(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    rig.nodes[1].holding = True
    client = await rig.client(1)
    client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: rig.nodes[1].held)
    assert muted(gateway) == [False]
    client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: muted(gateway) == [True])
    await until(lambda: len(rig.nodes[1].held) == 2)
    for _ in range(2):
        rig.nodes[1].release(0)
        await client.answer()


async def test_a_produce_without_an_answer_mutes_too(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    client.ask(PRODUCE, 9, produce_body(9, [(TOPIC, [(0, SENT)])], acks=0), client_id=LIMITED)
    await until(lambda: muted(gateway) == [True])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_fetch_over_its_quota_is_answered_empty_at_once(rig: Rig, version: int) -> None:
    gateway = await rig.start()
    with_file(rig, 10_000)
    await limit(rig, gateway, CONSUMED)
    first, second = await rig.client(1), await rig.client(1)
    assert await fetched(first, version) == (LONGEST_MS, 0, 10_000)
    asked = len(rig.nodes[1].fetches)
    assert await fetched(second, version) == (LONGEST_MS, 0, 0)
    assert len(rig.nodes[1].fetches) == asked
    assert muted(gateway) == [True, True]
    await unlimit(rig, gateway)
    assert await fetched(second, version) == (0, 0, 10_000)


async def test_a_mute_lasts_until_the_debt_is_paid(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MUTED_S_MAX", 0.01)
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    assert await produced(client) == 10
    (connection,) = connections(gateway)
    ends: list[object] = []
    longer_s = gateway.connections.quotas.longer_s

    def noted(entity: Entity) -> float:
        ends.append(connection.is_muted)
        return longer_s(entity)

    monkeypatch.setattr(gateway.connections.quotas, "longer_s", noted)
    await until(lambda: len(ends) >= 3)
    assert all(ends), "it goes on being muted"
    assert connection.broken_invariant() == ""


async def test_who_owes_by_two_quotas_waits_for_both(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MUTED_S_MAX", 0.01)
    gateway = await rig.start()
    with_file(rig, 10_000)
    quotas = ClientQuotas({PRODUCED: TINY, CONSUMED: 50_000.0})
    await rig.put(keys.client_quotas(QuotaEntity(client_id=LIMITED.decode())), quotas)
    assert await gateway.wait_for_revision(rig.store.keyspace.revision, 10)
    client = await rig.client(1)
    fetch_one = fetch_body(12, [(TOPIC, [(0, 0)])])
    client.send(frame(PRODUCE, 9, 1, PRODUCE_ONE, LIMITED) + frame(FETCH, 12, 2, fetch_one, LIMITED))
    await client.answer(PRODUCE, 9)
    await client.answer(FETCH, 12)
    (connection,) = connections(gateway)
    assert [shown["quota"] for shown in connection.debug()["muted_for"]] == [PRODUCED, CONSUMED]  # type: ignore[attr-defined]
    paid: list[Entity] = []
    longer_s = gateway.connections.quotas.longer_s

    def noted(entity: Entity) -> float:
        found = longer_s(entity)
        if not found:
            paid.append(entity)
        return found

    monkeypatch.setattr(gateway.connections.quotas, "longer_s", noted)
    await until(lambda: len(paid) >= 3)
    assert ({kind for kind, _, _ in paid}, muted(gateway)) == ({CONSUMING}, [True])


async def test_a_debt_of_another_connection_mutes_who_has_paid(rig: Rig) -> None:
    """A request that its slice has paid for, and whose entity owes something when it is answered."""
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED, RATE)
    client, slice_ = await rig.client(1), await granted(gateway, await rig.client(1))
    rig.nodes[1].holding = True
    client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: rig.nodes[1].held)
    slice_.granted(RATE, 0.0, gateway.data_path.now())
    client.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: len(rig.nodes[1].held) == 2)
    slice_.spend(100 * RATE, gateway.data_path.now())
    assert muted(gateway) == [False, False]
    rig.nodes[1].release(1)
    rig.nodes[1].release(0)
    await client.answer(PRODUCE, 9)
    assert sorted(muted(gateway)) == [False, True]


async def test_who_is_far_below_its_quota_costs_one_look(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice that its connection keeps pays for it: nothing else is counted, and no wait computed."""
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED, RATE)
    quotas, client = gateway.connections.quotas, await rig.client(1)
    slice_ = await granted(gateway, client)
    before = slice_.tokens
    with monkeypatch.context() as patched:
        for name in ("begin", "throttle"):
            patched.delattr(type(quotas), name)
        assert await produced(client) == 0
    assert before - slice_.tokens == len(frame(PRODUCE, 9, 1, PRODUCE_ONE, LIMITED)) - 4
    await limit(rig, gateway, PRODUCED)
    assert await produced(client) == LONGEST_MS, "a lowered limit counts for the next request"


async def test_the_first_produce_of_a_connection_waits_for_a_debt_that_outlived_another_one(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    first = await rig.client(1)
    await produced(first)
    await first.close()
    second = await rig.client(1)
    for number in (1, 2):
        second.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED, correlation_id=number)
    await until(lambda: sum(connection.queued_bytes > 2 * len(PRODUCE_ONE) for connection in connections(gateway)) == 1)
    (waiting,) = (connection for connection in connections(gateway) if connection.queued_bytes)
    assert (waiting.is_muted, waiting.broken_invariant(), len(rig.nodes[1].stored)) == (True, "", 1)
    await unlimit(rig, gateway)
    assert [(await second.answer())[0] for _ in range(2)] == [1, 2]
    assert len(rig.nodes[1].stored) == 3


async def test_a_request_that_waits_for_a_debt_begins_when_its_gateway_stops(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    await produced(await rig.client(1))
    second = await rig.client(1)
    second.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: any(connection.queued_bytes for connection in connections(gateway)))
    async with asyncio.timeout(MUTED_S_MAX / 2):
        await gateway.stop()
    await second.answer()
    assert len(rig.nodes[1].stored) == 2
    rig.gateway = None


@pytest.mark.parametrize("waits", [False, True], ids=["answered", "waits"])
async def test_a_muted_client_that_goes_away_is_noticed_while_it_is_muted(rig: Rig, waits: bool) -> None:
    gateway = await rig.start(half_frame_s_max=0.2)  # the sweep is as often
    await limit(rig, gateway, PRODUCED)
    first, second = await rig.client(1), await rig.client(1)
    await produced(first)
    second.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: muted(gateway) == [True, True])
    await (second if waits else first).close()
    await until(lambda: len(connections(gateway)) == 1)
    assert sum(connection.queued_bytes > 0 for connection in connections(gateway)) == (not waits)
    assert len(rig.nodes[1].stored) == 1


async def test_who_hangs_up_before_the_answer_owes_all_the_same(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    rig.nodes[1].holding = True
    first = await rig.client(1)
    first.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: rig.nodes[1].held)
    await first.close()
    await until(lambda: not connections(gateway))
    rig.nodes[1].holding = False
    second = await rig.client(1)
    second.ask(int(ApiKey.API_VERSIONS), 0, b"", client_id=LIMITED)
    await second.answer()
    assert muted(gateway) == [False], "it is a debt of Produces"
    second.ask(PRODUCE, 9, PRODUCE_ONE, client_id=LIMITED)
    await until(lambda: muted(gateway) == [True])
    assert len(rig.nodes[1].stored) == 1


async def test_other_clients_and_other_kinds_of_requests_are_not_muted(rig: Rig) -> None:
    gateway = await rig.start()
    with_file(rig, 1000)
    await limit(rig, gateway, PRODUCED)
    await produced(await rig.client(1))
    assert await produced(await rig.client(1), client_id=OTHER) == 0
    assert await fetched(await rig.client(1)) == (0, 0, 1000)
    assert muted(gateway) == [True, False, False]


async def test_one_connection_may_speak_for_several_clients(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    assert [await produced(client, client_id=OTHER) for _ in range(2)] == [0, 0]
    assert await produced(client) == LONGEST_MS


async def test_a_limit_of_time_mutes_for_a_second_at_most(rig: Rig) -> None:
    """Members of groups send heartbeats, and whoever set it too low can remove it."""
    gateway = await rig.start()
    await limit(rig, gateway, WORKED)
    client = await rig.client(1)
    for _ in range(2):
        client.ask(int(ApiKey.METADATA), 3, b"\0\0\0\0", client_id=LIMITED)
        _, reader = await client.answer()
        assert reader.int32() == 1000
        assert muted(gateway) == [True]


async def test_a_client_id_that_is_too_long_is_limited_here_alone(rig: Rig) -> None:
    gateway = await rig.start()
    name = b"x" * 300
    await limit(rig, gateway, PRODUCED, client_id=name)
    assert await produced(await rig.client(1), client_id=name) == LONGEST_MS
    slices = gateway.connections.quotas.slices
    ask = slices.next_ask(gateway.data_path.now() + 1.0)
    assert (len(slices), ask is None or ask.needs) == (1, ())
    await unlimit(rig, gateway, name)
    assert (muted(gateway), len(slices)) == ([False], 0)


@pytest.mark.parametrize("other", [False, True], ids=["the only quota", "one of two"])
async def test_a_fetch_whose_quota_is_removed_meanwhile_mutes_nobody(rig: Rig, other: bool) -> None:
    gateway = await rig.start()
    with_file(rig, 10_000)
    if other:
        await limit(rig, gateway, CONSUMED, client_id=OTHER)
    await limit(rig, gateway, CONSUMED)
    rig.nodes[1].holding_fetches = True
    client = await rig.client(1)
    client.ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])]), client_id=LIMITED)
    await until(lambda: rig.nodes[1].parked_fetches)
    await unlimit(rig, gateway)
    rig.nodes[1].answer_fetch(rig.nodes[1].parked_fetches.pop())
    await client.answer(FETCH, 12)
    assert (muted(gateway), len(gateway.connections.quotas.slices)) == ([False], 0)


async def test_a_change_of_another_quota_frees_nobody(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    await produced(await rig.client(1))
    await limit(rig, gateway, PRODUCED, client_id=OTHER)
    assert muted(gateway) == [True]


@pytest.mark.parametrize("rate", [3000.0, 0.5])
async def test_a_fetch_asks_for_a_second_of_its_quota_at_most(rig: Rig, rate: float) -> None:
    gateway = await rig.start()
    with_file(rig, 10_000)
    await limit(rig, gateway, CONSUMED, rate)
    client = await rig.client(1)
    body = fetch_body(12, [(TOPIC, [(0, 0)])], min_bytes=5000)
    client.ask(FETCH, 12, body, client_id=LIMITED)
    await client.answer(FETCH, 12)
    (asked,) = rig.nodes[1].fetches
    assert (asked.max_bytes, asked.min_bytes) == (max(1, int(rate)),) * 2


async def test_quotas_that_gateways_do_not_share_cost_no_request_anything(rig: Rig) -> None:
    gateway = await rig.start()
    await rig.put(keys.client_quotas(QuotaEntity(ip="10.0.0.1")), ClientQuotas({"connection_creation_rate": 1.0}))
    await limit(rig, gateway, "controller_mutation_rate", 1.0)
    assert not gateway.connections.quotas.configured
    await limit(rig, gateway, PRODUCED, 1.0)
    assert gateway.connections.quotas.configured


async def test_a_quota_that_is_raised_counts_for_the_next_request(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    await produced(client)
    await limit(rig, gateway, PRODUCED, 1e9)
    assert muted(gateway) == [False]
    assert await produced(client) == 0


async def test_half_a_frame_is_not_timed_while_its_client_is_muted_and_keeps_its_room(rig: Rig) -> None:
    gateway = await rig.start(half_frame_s_max=0.05)
    await limit(rig, gateway, PRODUCED)
    client, bystander = await rig.client(1), await rig.client(1)
    large = frame(PRODUCE, 9, 2, produce_body(9, [(TOPIC, [(0, SENT * 20_000)])]), LIMITED)
    client.send(frame(PRODUCE, 9, 1, PRODUCE_ONE, LIMITED) + large[:1000])
    await client.answer(PRODUCE, 9)
    (connection,) = (each for each in connections(gateway) if each.is_muted)
    assert (connection.held_bytes > 1000, connection.broken_invariant()) == (True, "")
    opened = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < opened + 0.5:
        assert await produced(bystander, client_id=OTHER) == 0
    assert rig.closed("half-frame") == 0
    await unlimit(rig, gateway)
    client.send(large[1000:])
    await client.answer(PRODUCE, 9)


async def test_a_muted_client_that_goes_away_is_noticed_when_it_is_read_again(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    await produced(client)
    await client.close()
    await unlimit(rig, gateway)
    await until(lambda: not connections(gateway))


async def test_a_gateway_stops_with_muted_clients(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    client = await rig.client(1)
    await produced(client)
    async with asyncio.timeout(MUTED_S_MAX / 2):
        await gateway.stop()
    assert await client.ended()
    rig.gateway = None


async def test_throttled_requests_and_times_are_metrics(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    await produced(await rig.client(1))
    rendered = rig.metrics.render().decode()
    assert 'penstock_gateway_throttled_requests_total{quota="produce"} 1.0' in rendered
    await unlimit(rig, gateway)
    assert 0.0 < gateway.meters.throttle_seconds["produce"] < MUTED_S_MAX
    assert "penstock_gateway_throttle_seconds_total{" in rig.metrics.render().decode()


# --- shortcuts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster() as made:
        yield made


async def is_muted_after(cluster: Cluster, quota: str, learning: list[Asked], asked: Asked) -> bool:
    """Whether a connection is muted by its second request, which a quota does not allow. The first taught a shortcut."""
    rig, gateway = cluster.rig, cluster.rig.gateway
    assert gateway is not None
    client = await rig.client(1)
    for key, version, body in learning:
        send(client, key, version, body)
        await client.answer()
    await limit(rig, gateway, quota, client_id=b"some-client")
    send(client, *asked)
    await client.answer()
    (connection,) = connections(gateway)
    was_muted = connection.is_muted
    await unlimit(rig, gateway, b"some-client")
    return was_muted


@pytest.mark.parametrize("quota", [PRODUCED, WORKED])
@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
async def test_the_produce_shortcut_is_counted(cluster: Cluster, taken: dict[type, int], version: int, quota: str) -> None:
    again = produce(version)
    assert await is_muted_after(cluster, quota, [again], again)
    assert taken == {ProduceShortcut: 1}


@pytest.mark.parametrize("quota", [CONSUMED, WORKED])
@pytest.mark.parametrize("offset", [0, 4, 40], ids=["again", "the next", "a jump"])
async def test_the_fetch_shortcut_is_counted(cluster: Cluster, taken: dict[type, int], offset: int, quota: str) -> None:
    learning = [fetch(12, 0), fetch(12, 2), fetch(12, 30), fetch(12, 2)]
    assert await is_muted_after(cluster, quota, learning, fetch(12, offset))
    assert taken == {FetchShortcut: 4}


@pytest.mark.parametrize("timestamp", [-1, -2, 5])
async def test_the_shortcut_of_offsets_is_counted(cluster: Cluster, taken: dict[type, int], timestamp: int) -> None:
    asked = listed(7, timestamp)
    assert await is_muted_after(cluster, WORKED, [asked], asked)
    assert taken[ListOffsetsShortcut] > 0


@pytest.mark.parametrize("key", RELAYED, ids=lambda key: key.name)
async def test_relayed_requests_are_counted(cluster: Cluster, taken: dict[type, int], key: ApiKey) -> None:
    version = min(NAMED_IN_A_LIST.get(key, 99) - 1, versions(key)[-1])
    asked = [(key, version, request_body(key, version, RELAYED[key](number))) for number in range(3)]
    assert await is_muted_after(cluster, WORKED, asked[:2], asked[2])
    assert taken[RelayShortcut] > 0


async def test_a_leave_group_after_the_hang_up_is_counted(cluster: Cluster) -> None:
    rig, gateway = cluster.rig, cluster.rig.gateway
    assert gateway is not None
    rig.nodes[1].holding_fetches = True
    await limit(rig, gateway, WORKED, client_id=b"some-client")
    client = await rig.client(1)
    body = fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=60_000)
    client.ask(FETCH, 12, body, client_id=OTHER)
    await until(lambda: rig.nodes[1].parked_fetches)
    leave = request_body(ApiKey.LEAVE_GROUP, 1, RELAYED[ApiKey.LEAVE_GROUP](1))
    send(client, ApiKey.LEAVE_GROUP, 1, leave)
    await until(lambda: sum(each.queued_bytes for each in connections(gateway)) > len(body) + len(leave))
    await client.close()
    await until(lambda: not connections(gateway))
    assert gateway.connections.quotas.slices.owed_s((REQUEST, "", "some-client")) > 0.0


# --- requests with handlers -----------------------------------------------------------------------------------------------


async def test_each_step_of_a_handler_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, WORKED, 50.0)
    counted: list[float] = []
    spend = gateway.connections.quotas.slices.spend

    def noted(entity: Entity, rate: float, tokens: float, now: float) -> QuotaSlice:
        counted.append(tokens)
        return spend(entity, rate, tokens, now)

    monkeypatch.setattr(gateway.connections.quotas.slices, "spend", noted)
    client = await rig.client(1)
    client.ask(int(ApiKey.API_VERSIONS), 0, b"", client_id=LIMITED)
    await client.answer()
    await until(lambda: len(counted) == 2)  # the gate, and the handler's only step until its answer
    assert all(0.0 < percent < 100.0 for percent in counted)


async def test_what_the_controller_tells_mutes_the_client(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await rig.start()

    async def handle(*_: object) -> create_topics.CreateTopicsResponse:
        return create_topics.CreateTopicsResponse(throttle_time_ms=3000)

    row = SERVED[ApiKey.CREATE_TOPICS]
    monkeypatch.setitem(SERVED, ApiKey.CREATE_TOPICS, dataclasses.replace(row, handle=handle))
    client = await rig.client(1)
    body = request_body(ApiKey.CREATE_TOPICS, 4, create_topics.CreateTopicsRequest([]))
    send(client, ApiKey.CREATE_TOPICS, 4, body)
    _, reader = await client.answer()
    assert create_topics.read_response(reader, 4).throttle_time_ms == 3000
    assert muted(gateway) == [True]
