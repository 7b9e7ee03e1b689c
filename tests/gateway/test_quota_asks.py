"""A gateway and the quota manager: who is asked, when, and what an answer is worth."""

import math
from collections.abc import AsyncIterator, Callable

import pytest

from libs.cluster.client_quotas import PRODUCE
from libs.cluster.records import GATEWAY
from libs.rpc.contracts.quotas import Ask, Grant, Granted
from libs.wire.errors import ErrorCode
from services.gateway.peers import quota_manager
from services.gateway.requests.client_quotas import MUTED_S_MAX
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.fake_peer_gateway import FakePeerGateway
from tests.gateway.fake_quota_manager import FakeQuotaManager, all_of_it
from tests.gateway.limited_clients import LIMITED, LONGEST_MS, PRODUCED, TINY, limit, muted, produced, unlimit
from tests.support.polling import until

ENTITY = (PRODUCE, "", LIMITED.decode())


@pytest.fixture
async def manager(rig: Rig) -> AsyncIterator[FakeQuotaManager]:
    made = FakeQuotaManager(rig)
    yield made
    await made.stop()


async def heard(gateway: Gateway) -> None:
    """Returns once the gateway has an answer."""
    await until(lambda: not gateway.connections.quotas.slices.is_alone(gateway.data_path.now()))


async def test_nobody_is_asked_while_no_client_has_a_limit(rig: Rig, manager: FakeQuotaManager) -> None:
    gateway = await rig.start()
    await manager.start()
    await produced(await rig.client(1))
    await limit(rig, gateway, PRODUCED)
    await until(lambda: manager.asks)
    await unlimit(rig, gateway)
    asks = len(manager.asks)
    for _ in range(20):
        await produced(await rig.client(1))
    assert len(manager.asks) <= asks + 1, "one may have been on its way"


async def test_a_gateway_asks_for_its_debt_and_the_grant_pays_it(rig: Rig, manager: FakeQuotaManager) -> None:
    gateway = await rig.start()
    await manager.start()
    await limit(rig, gateway, PRODUCED)
    first = await rig.client(1)
    assert await produced(first) == LONGEST_MS
    await until(lambda: any(need.debt for ask in manager.asks for need in ask.needs))
    asked = next(need for ask in manager.asks for need in ask.needs if need.debt)
    assert asked.entity == ENTITY
    await until(lambda: gateway.connections.quotas.slices.wait_s(ENTITY, gateway.data_path.now()) == 0.0)


async def test_a_debt_elsewhere_is_waited_for(rig: Rig, manager: FakeQuotaManager) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED, 1000.0)
    manager.answer = lambda ask: Granted(0, tuple(Grant(0.0, owed_elsewhere=4000.0) for _ in ask.needs))
    await manager.start()
    await produced(await rig.client(1))
    await until(lambda: gateway.connections.quotas.slices.wait_s(ENTITY, gateway.data_path.now()) > 3.0)


NONSENSE: dict[str, Callable[[Ask], Granted]] = {
    "too many grants": lambda ask: Granted(0, (Grant(1.0),) * (len(ask.needs) + 1)),
    "negative": lambda ask: Granted(0, tuple(Grant(-1.0) for _ in ask.needs)),
    "not a number": lambda ask: Granted(0, tuple(Grant(math.nan) for _ in ask.needs)),
    "infinite": lambda ask: Granted(0, tuple(Grant(math.inf) for _ in ask.needs)),
    "more than was asked for": lambda ask: Granted(0, tuple(Grant(2 * (need.wanted + need.debt) + 1.0) for need in ask.needs)),
    "infinite elsewhere": lambda ask: Granted(0, tuple(Grant(0.0, math.inf) for _ in ask.needs)),
    "negative elsewhere": lambda ask: Granted(0, tuple(Grant(0.0, -1.0) for _ in ask.needs)),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_nonsense_is_ignored_and_named(
    rig: Rig, manager: FakeQuotaManager, caplog: pytest.LogCaptureFixture, nonsense: str
) -> None:
    gateway = await rig.start()
    answer = NONSENSE[nonsense]
    manager.answer = lambda ask: answer(ask) if ask.needs else all_of_it(ask)
    await limit(rig, gateway, PRODUCED)
    await produced(await rig.client(1))
    await manager.start()
    await until(lambda: any(record.getMessage() == "quota manager's answer ignored" for record in caplog.records))
    assert gateway.connections.quotas.slices.wait_s(ENTITY, gateway.data_path.now()) > MUTED_S_MAX
    manager.answer = all_of_it
    await until(lambda: gateway.connections.quotas.slices.wait_s(ENTITY, gateway.data_path.now()) == 0.0)


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER])
async def test_a_manager_that_refuses_is_asked_again(rig: Rig, manager: FakeQuotaManager, error: ErrorCode) -> None:
    gateway = await rig.start()
    manager.answer = lambda ask: Granted(int(error))
    await manager.start()
    await limit(rig, gateway, PRODUCED)
    await until(lambda: len(manager.asks) >= 3)
    assert gateway.connections.quotas.slices.is_alone(gateway.data_path.now() + 1.0)
    manager.answer = all_of_it
    await heard(gateway)


async def test_a_silent_manager_is_given_up_and_asked_again(rig: Rig, manager: FakeQuotaManager) -> None:
    gateway = await rig.start()
    manager.answer = None
    await manager.start()
    await limit(rig, gateway, PRODUCED)
    await until(lambda: len(manager.asks) >= 2)
    assert [ask.confirmed for ask in manager.asks] == [0] * len(manager.asks)
    manager.answer = all_of_it
    await until(lambda: manager.asks[-1].confirmed > 0)


async def test_without_a_manager_a_client_is_muted_and_gets_the_part_of_this_gateway(rig: Rig) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED, TINY)
    assert await produced(await rig.client(1)) == LONGEST_MS
    assert muted(gateway) == [True]
    assert gateway.debug()["quotas"] == {"entities": 1, "gateways": 1, "alone": True}


@pytest.mark.parametrize("vanished_s", [pytest.param(0.01, id="after a while"), pytest.param(60.0, id="not at once")])
async def test_a_gateway_that_vanishes_from_the_image_is_no_longer_counted(
    rig: Rig, vanished_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_manager, "VANISHED_S", vanished_s)
    gateway = await rig.start()
    slices = gateway.connections.quotas.slices
    peer = FakePeerGateway(rig)
    await peer.start()
    await peer.join()
    await until(lambda: slices.gateways == 2)
    await peer.leave()
    if vanished_s < 1.0:
        await until(lambda: slices.gateways == 1)
    else:
        await until(lambda: len(gateway.image.members(GATEWAY)) == 1)
        assert slices.gateways == 2
    await peer.end()


async def test_another_manager_is_asked_once_it_is_elected(rig: Rig, manager: FakeQuotaManager) -> None:
    gateway = await rig.start()
    await limit(rig, gateway, PRODUCED)
    await manager.start()
    await until(lambda: manager.asks)
    await manager.stop()
    second = FakeQuotaManager(rig, 2)
    await second.start()
    try:
        await until(lambda: len(second.asks) >= 2)
        assert second.asks[0].number > 1, "numbers rise for as long as the gateway lives"
    finally:
        await second.stop()
