"""The quota manager as a service: elections, gateways that come and go, limits that change, and asks that no gateway sends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from libs.cluster import keys
from libs.cluster.client_quotas import PRODUCE
from libs.cluster.codec import encode
from libs.cluster.election import Election
from libs.cluster.image_follower import ImageFollower
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import GATEWAY, QUOTA_MANAGER, STORAGE, ClientQuotas, ElectedQuotaManager, Member, QuotaEntity
from libs.cluster.store import Delete, MetadataStore, Put
from libs.rpc.contracts.quotas import Ask, Entity, Grant, Granted, Need
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.server.call import Peer
from libs.telemetry.metrics import Metrics
from libs.wire.errors import ErrorCode
from services.quota_manager.meters import ENTITIES_AT_ONCE, SERIES_MAX, Meters
from services.quota_manager.quota_manager import NEEDS_MAX, QuotaManager
from tests.controller.running_controller import register, story
from tests.support.polling import until

TTL_S = 2
TENANT: Entity = (PRODUCE, "", "tenant")
"""A client id that is limited to 100 bytes a second."""


@contextlib.asynccontextmanager
async def running(store: MetadataStore, node_id: int = 1) -> AsyncIterator[QuotaManager]:
    follower = ImageFollower(store)
    await follower.start()
    candidate = ElectedQuotaManager(node_id, node_id * 100)
    manager = QuotaManager(follower, Election(store, keys.QUOTA_MANAGER, candidate, TTL_S), candidate)
    task = asyncio.ensure_future(manager.run())
    try:
        yield manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await follower.close()


async def limit(store: MetadataStore, client_id: str, rate: float | None) -> None:
    key = keys.client_quotas(QuotaEntity(client_id=client_id))
    await store.txn([], [Delete(key) if rate is None else Put(key, encode(ClientQuotas({"producer_byte_rate": rate})))])


def peer(node_id: int, incarnation: int = 1) -> Peer:
    return Peer(GATEWAY, node_id, incarnation, "test", 1, "", None, "", 0)


class Asker:
    """A gateway that asks for one entity."""

    def __init__(self, node_id: int, incarnation: int = 1) -> None:
        self._peer = peer(node_id, incarnation)
        self._number = 0

    def ask(self, manager: QuotaManager, *needs: Need) -> Granted:
        """The answer, which it confirms with the next ask."""
        self._number += 1
        return manager.answer(self._peer, Ask(self._number, self._number - 1, needs))


async def tokens_in(seconds: float, manager: QuotaManager, gateways: list[Asker]) -> float:
    """All tokens that gateways get which ask every 50 ms."""
    total = 0.0
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        for gateway in gateways:
            total += sum(grant.tokens for grant in gateway.ask(manager, Need(TENANT, 1_000.0)).grants)
        await asyncio.sleep(0.05)
    return total


async def cluster(*gateways: int) -> MemoryStore:
    store = MemoryStore()
    await register(store, *[Member(GATEWAY, node_id, 1, "h") for node_id in gateways], Member(STORAGE, 1, 1, "h"))
    await limit(store, "tenant", 100.0)
    return store


@story
async def test_the_elected_one_grants_what_the_limit_allows_and_no_more() -> None:
    store = await cluster(1, 2)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        assert await tokens_in(10.0, manager, [Asker(1), Asker(2)]) == pytest.approx(1_000.0, rel=0.05)


@story
async def test_a_standby_grants_nothing_and_takes_over_with_empty_buckets() -> None:
    store = await cluster(1)
    async with running(store, 2) as second:
        async with running(store, 1) as first:
            await until(lambda: first.elected != second.elected)
            active, standby = (first, second) if first.elected else (second, first)
            assert standby.ready() == (True, f"standby of quota manager {1 if active is first else 2}")
            assert Asker(1).ask(standby, Need(TENANT, 1.0)) == Granted(ErrorCode.NOT_CONTROLLER)
            await tokens_in(2.0, active, [Asker(1)])
        if active is first:
            await until(lambda: second.elected)
            assert Asker(1).ask(second, Need(TENANT, 1_000.0)).grants == (Grant(0.0),)


@story
async def test_the_part_of_a_gateway_that_is_silent_is_kept_back() -> None:
    store = await cluster(1, 2, 3, 4)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        assert await tokens_in(10.0, manager, [Asker(1)]) == pytest.approx(250.0, rel=0.1)
        assert manager.gateways() == {"registered": 4, "silent": 3}
        await store.txn([], [Delete(keys.member(GATEWAY, node_id)) for node_id in (2, 3, 4)])
        await until(lambda: manager.gateways()["registered"] == 1)
        assert await tokens_in(10.0, manager, [Asker(1)]) == pytest.approx(1_000.0, rel=0.1)


@story
async def test_limits_change_and_end_while_it_runs() -> None:
    store = await cluster(1)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        gateway = Asker(1)
        await tokens_in(1.0, manager, [gateway])
        await limit(store, "tenant", 1_000.0)
        assert await tokens_in(5.0, manager, [gateway]) == pytest.approx(5_000.0, rel=0.1)
        (view,) = manager.accounts()
        assert (view["client_id"], view["limit_per_s"], manager.entities) == ("tenant", 1_000.0, 1)
        await limit(store, "tenant", None)
        await until(lambda: not manager.image.client_quotas)
        assert gateway.ask(manager, Need(TENANT, 1.0)).grants == (Grant(0.0, limited=False),)
        assert manager.entities == 0


@story
async def test_a_gateway_that_is_not_registered_is_granted_nothing() -> None:
    store = await cluster(1)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        assert Asker(9).ask(manager, Need(TENANT, 1.0)) == Granted(ErrorCode.NOT_CONTROLLER)
        assert Asker(1, incarnation=2).ask(manager, Need(TENANT, 1.0)) == Granted(ErrorCode.NOT_CONTROLLER)


@story
async def test_asks_that_no_gateway_sends_are_refused() -> None:
    store = await cluster(1)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        for need in (
            Need(TENANT, -1.0),
            Need(TENANT, float("nan")),
            Need(TENANT, float("inf")),
            Need(TENANT, debt=float("inf")),
            Need(TENANT, returned=-1e300),
            Need(TENANT, used=float("nan")),
            Need(TENANT, throttled=-1),
            Need(TENANT, throttle_s=float("inf")),
        ):
            with pytest.raises(ContractError, match="is not sane"):
                manager.answer(peer(1), Ask(1, 0, (need,)))
        with pytest.raises(ContractError, match="is not sane"):
            manager.answer(peer(1), Ask(1, 0, (Need(TENANT),) * (NEEDS_MAX + 1)))


@story
async def test_metrics_are_of_entities_that_configs_name() -> None:
    store = await cluster(1)
    await limit(store, "", 100.0)
    metrics = Metrics(QUOTA_MANAGER, process=False, version="test")
    async with running(store) as manager:
        metrics.registry.register(Meters(manager))
        await until(lambda: manager.elected)
        other, used = (PRODUCE, "", "other"), Need(TENANT, debt=50.0, used=50.0, throttled=1, throttle_s=0.5)
        Asker(1).ask(manager, used, Need(other, used=50.0))
        await asyncio.sleep(0.5)
        lines = metrics.render().decode().splitlines()
    series = [line for line in lines if line.startswith("kafka_server_")]
    assert [line.partition(" ")[0] for line in series] == [
        f'kafka_server_produce_{name}{{user="",client_id="tenant"}}' for name in ("byte_rate", "throttle_time")
    ]
    assert [float(line.split()[1]) for line in series] == [pytest.approx(50.0, rel=0.1), pytest.approx(500.0)]


@story
async def test_a_scrape_pauses_among_many_entities_and_tells_how_many_it_leaves_out() -> None:
    store, many = await cluster(1), 2 * ENTITIES_AT_ONCE
    for number in range(many):
        await limit(store, f"client-{number:03}", 100.0)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        Asker(1).ask(manager, *[Need((PRODUCE, "", f"client-{number:03}"), used=1.0) for number in range(many)])
        families = list(Meters(manager).families())
        values = {family[0].name: list(family[0].rows(family[1])) for family in families if family is not None}
    assert families.count(None) == many // ENTITIES_AT_ONCE
    assert len(values["kafka_server_produce_byte_rate"]) == SERIES_MAX
    assert values["penstock_quota_manager_entities_without_series"] == [((), many - SERIES_MAX)]


@story
async def test_without_an_election_nobody_is_ready() -> None:
    follower = ImageFollower(await cluster(1))
    await follower.start()
    candidate = ElectedQuotaManager(1, 100)
    manager = QuotaManager(follower, Election(await cluster(1), keys.QUOTA_MANAGER, candidate, TTL_S), candidate)
    assert manager.ready() == (False, "there is no active quota manager")
    assert (manager.accounts(), manager.entities, manager.gateways()) == ([], 0, {"registered": 0, "silent": 0})
    await follower.close()


async def test_a_gateway_can_read_every_answer() -> None:
    store = await cluster(1, 2)
    await limit(store, "tenant", 100.0)
    async with running(store) as manager:
        await until(lambda: manager.elected)
        first, second = Asker(1), Asker(2)
        for needs in (
            (),
            (Need(TENANT, 10.0, 50.0),),
            (Need(TENANT, 10.0),),
            (Need(TENANT, returned=5.0),),
            (Need((0, "", "x")),),
        ):
            for gateway in (first, second):
                granted = gateway.ask(manager, *needs)
                assert unpack(Granted, pack(granted)) == granted
