"""What an account shows of its entity: use, shares, debts and throttle times."""

import json

import pytest

from libs.cluster.client_quotas import PRODUCE
from libs.rpc.contracts.quotas import GRANT_S, Entity, Need
from services.quota_manager.core.account import RECENT_S, Account
from services.quota_manager.core.ledger import Ledger

RATE = 100.0
TENANT: Entity = (PRODUCE, "", "tenant")


def told(ledger: Ledger, gateway: int, need: Need, now: float) -> Account:
    ledger.grant(gateway, [need], now, now)
    account = ledger.account(TENANT)
    assert account is not None
    return account


def test_use_is_a_rate_from_its_first_second_on() -> None:
    ledger = Ledger(lambda _: RATE)
    for tick in range(201):
        account = told(ledger, 1, Need(TENANT, used=2.5 if tick else 0.0), tick / 20)
        if tick in (20, 200):
            assert account.used_per_s(tick / 20) == pytest.approx(50.0, rel=0.05)


def test_use_from_before_the_first_note_is_no_rate_of_the_moment_after_it() -> None:
    account = told(Ledger(lambda _: RATE), 1, Need(TENANT, used=50.0), 7.0)
    assert [account.used_per_s(now) for now in (7.0, 7.001)] == pytest.approx([50.0, 50.0], rel=0.01)


def test_use_fades_when_it_ends() -> None:
    account = told(Ledger(lambda _: RATE), 1, Need(TENANT, used=1_000.0), 0.0)
    rates = [account.used_per_s(now) for now in (1.0, RECENT_S, 20 * RECENT_S)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.01


def test_throttle_times_are_the_average_of_those_that_were_told() -> None:
    ledger = Ledger(lambda _: RATE)
    told(ledger, 1, Need(TENANT, throttled=1, throttle_s=0.1), 0.0)
    account = told(ledger, 2, Need(TENANT, throttled=3, throttle_s=1.1), 0.0)
    assert account.throttle_time_ms(0.0) == pytest.approx(300.0)
    told(ledger, 1, Need(TENANT, throttled=1, throttle_s=2.0), 20 * RECENT_S)
    assert account.throttle_time_ms(20 * RECENT_S) == pytest.approx(2_000.0, rel=1e-3), "the others are long ago"


def test_the_view_tells_why_its_clients_are_slow_and_at_which_gateways() -> None:
    ledger = Ledger(lambda _: RATE)
    told(ledger, 1, Need(TENANT), 0.0)
    told(ledger, 1, Need(TENANT, debt=150.0, used=150.0, throttled=1, throttle_s=1.5), 0.1)
    told(ledger, 2, Need(TENANT, used=30.0), 0.1)
    (row,) = ledger.view(0.2, 0.2, 10)
    json.dumps(row, allow_nan=False)
    assert (row["quota"], row["client_id"], row["limit_per_s"]) == ("producer_byte_rate", "tenant", RATE)
    assert (row["throttle_time_ms"], row["owed"], row["owed_s"]) == pytest.approx((1_500.0, 140.0, 1.4))
    shares = row["by_gateway"]
    assert isinstance(shares, dict)
    assert [shares[gateway]["owed"] for gateway in (1, 2)] == pytest.approx([140.0, 0.0])
    assert shares[1]["used_per_s"] > shares[2]["used_per_s"] > 0.0
    assert row["used_per_s"] == pytest.approx(sum(share["used_per_s"] for share in shares.values()))
    (later,) = ledger.view(0.2 + GRANT_S, 0.2, 10)
    assert later["owed"] == 0.0, "nobody told so for a while"


def test_nothing_is_known_of_an_entity_that_used_nothing() -> None:
    account = told(Ledger(lambda _: RATE), 1, Need(TENANT), 5.0)
    assert (account.used_per_s(5.0), account.throttle_time_ms(5.0)) == (0.0, 0.0)
