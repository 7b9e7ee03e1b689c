"""What quotas promise, on virtual time: over any time T, no more than limit x T, a burst, and what was on its way."""

import pytest

from services.gateway.core.quota_slice import SLICE_S
from services.quota_manager.core.ledger import BURST_S
from tests.quota_manager.shared_quota import Load, Outage, SharedQuota

LOADS = {
    "uneven and moving": Load(),
    "moving seldom": Load(moves_every_s=10.0),
    "standing still": Load(moves_every_s=0.0),
    "a hundred clients": Load(clients=100, request_sizes=(1e3, 1e5)),
    "small requests": Load(clients=4, request_sizes=(1e3, 5e3), rate=1e6),
    "a gigabyte a second": Load(rate=1e9),
}
OUTAGES = {
    "one gateway is cut off": (Outage(5.0, 15.0, gateways=(0,)),),
    "one gateway hears no answers": (Outage(5.0, 15.0, gateways=(0,), answers_only=True),),
    "the manager is away": (Outage(5.0, 15.0),),
    "one cut after the other": (Outage(3.0, 7.0, gateways=(0,)), Outage(7.5, 12.0, gateways=(1,))),
}


def allowance(load: Load, gateways: int) -> float:
    """The burst, the slices in hand, and a request of each client."""
    return load.rate * (BURST_S + gateways * SLICE_S) + load.clients * load.request_sizes[1]


@pytest.mark.parametrize("gateways", [1, 2, 3])
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_a_limit_is_used_to_98_percent_and_never_exceeded(load: Load, gateways: int) -> None:
    for seed in range(3):
        admitted = SharedQuota(seed, load, gateways).run()
        assert admitted.excess(load.rate) <= allowance(load, gateways)
        assert 0.98 <= admitted.between(1.0, load.seconds) / (load.rate * (load.seconds - 1.0)) <= 1.02
        assert admitted.asks <= 20 * gateways * load.seconds


@pytest.mark.parametrize("gateways", [2, 3])
@pytest.mark.parametrize("outages", OUTAGES.values(), ids=OUTAGES.keys())
def test_a_gateway_that_is_cut_off_adds_nothing_to_the_limit(outages: tuple[Outage, ...], gateways: int) -> None:
    load = Load()
    for seed in range(3):
        admitted = SharedQuota(seed, load, gateways, outages).run()
        assert admitted.excess(load.rate) <= allowance(load, gateways)


def test_a_gateway_alone_spends_its_part_of_the_limit() -> None:
    load = Load(moves_every_s=0.0)
    admitted = SharedQuota(1, load, 2, (Outage(5.0, 15.0),)).run()
    assert 0.97 <= admitted.between(7.0, 15.0) / (load.rate * 8.0) <= 1.01


@pytest.mark.parametrize("away_s", [0.0, 0.5, 3.0])
def test_a_manager_that_takes_over_mints_no_tokens(away_s: float) -> None:
    load = Load()
    outages = tuple(Outage(at, at + away_s) for at in (4.0, 8.0, 12.0, 16.0))
    successions = tuple(outage.end for outage in outages)
    for seed in range(3):
        admitted = SharedQuota(seed, load, 2, outages, successions).run()
        assert admitted.excess(load.rate) <= allowance(load, 2)
        unused_s = sum(1.0 + away_s for _ in successions)  # until gateways have confirmed an answer, and while they are alone
        assert admitted.between(1.0, load.seconds) >= load.rate * (load.seconds - 1.0 - unused_s)


def test_a_client_that_comes_by_another_gateway_still_owes_what_it_spent() -> None:
    """One client alone, which changes its gateway after each request."""
    load = Load(clients=1, request_sizes=(5e6, 5e6), rate=1e6, moves_every_s=0.1, seconds=60.0)
    admitted = SharedQuota(1, load, 3).run()
    assert admitted.between(0.0, 60.0) <= 60e6 + allowance(load, 3)
