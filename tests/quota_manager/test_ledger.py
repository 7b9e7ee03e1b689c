"""The quota manager's ledger: who is granted what. The rate is 100 tokens a second, so a bucket holds 50."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.rpc.contracts.quotas import Entity, Grant, Need
from libs.token_bucket import TokenBucket
from services.quota_manager.core.ledger import BURST_S, UNUSED_S, Ledger

RATE = 100.0
TENANT: Entity = (0, "tenant", "")
OTHER: Entity = (0, "other", "")


class about:
    """A grant of about so many tokens."""

    def __init__(self, tokens: float, owed_elsewhere: float = 0.0) -> None:
        self._tokens, self._owed = tokens, owed_elsewhere

    def __eq__(self, grant: object) -> bool:
        return isinstance(grant, Grant) and (grant.tokens, grant.owed_elsewhere) == pytest.approx((self._tokens, self._owed))

    __hash__ = None  # type: ignore[assignment]


def ledger(rates: dict[Entity, float] | None = None) -> Ledger:
    return Ledger((rates if rates is not None else {TENANT: RATE}).get)


def test_a_new_account_is_empty() -> None:
    assert ledger().grant(1, [Need(TENANT, 10.0)], 0.0, 7.0) == [Grant(0.0)]


def test_an_account_fills_at_its_rate_and_holds_half_a_second_of_it() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 0.0)], 0.0, 0.0)
    assert those.grant(1, [Need(TENANT, 30.0)], 0.1, 0.1) == [Grant(10.0)]
    assert those.grant(1, [Need(TENANT, 90.0)], 9.0, 9.0) == [Grant(RATE * BURST_S)]


def test_an_account_fills_only_while_gateways_are_heard() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 0.0)], 0.0, 0.0)
    assert those.grant(1, [Need(TENANT, 50.0)], 1.0, 0.25) == [Grant(25.0)]


def test_a_debt_is_repaid_before_there_is_a_slice() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 0.0)], 0.0, 0.0)
    assert those.grant(1, [Need(TENANT, 10.0, debt=40.0)], 0.3, 0.3) == [about(30.0)]
    assert those.grant(1, [Need(TENANT, 10.0, debt=10.0)], 0.45, 0.45) == [about(15.0)]


def test_another_gateway_gets_no_slice_while_the_entity_owes() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 10.0, debt=30.0)], 0.0, 0.0)
    assert those.grant(2, [Need(TENANT, 10.0)], 0.2, 0.2) == [Grant(0.0, owed_elsewhere=30.0)]
    assert those.grant(2, [Need(TENANT, 10.0)], 0.35, 0.35) == [about(5.0, owed_elsewhere=30.0)]
    assert those.grant(1, [Need(TENANT, 10.0, debt=30.0)], 0.4, 0.4) == [about(35.0)]
    assert those.grant(2, [Need(TENANT, 10.0)], 0.5, 0.5) == [about(10.0)]


def test_a_debt_of_a_gateway_that_is_gone_is_forgotten() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 10.0, debt=30.0)], 0.0, 0.0)
    assert those.grant(2, [Need(TENANT, 10.0)], 1.1, 1.1) == [Grant(10.0)]


def test_returned_tokens_are_for_others_but_never_beyond_the_depth() -> None:
    those = ledger()
    those.grant(1, [Need(TENANT, 0.0)], 0.0, 0.0)
    assert those.grant(1, [Need(TENANT, 0.0, returned=20.0)], 0.0, 0.0) == [Grant(0.0)]
    assert those.grant(2, [Need(TENANT, 30.0)], 0.0, 0.0) == [Grant(20.0)]
    those.grant(1, [Need(TENANT, 0.0, returned=900.0)], 0.0, 0.0)
    assert those.grant(2, [Need(TENANT, 90.0)], 0.0, 0.0) == [Grant(50.0)]


def test_a_new_limit_counts_from_the_next_need_on() -> None:
    rates: dict[Entity, float] = {TENANT: RATE}
    those = ledger(rates)
    those.grant(1, [Need(TENANT, 0.0)], 0.0, 0.0)
    rates[TENANT] = 10.0
    assert those.grant(1, [Need(TENANT, 50.0)], 1.0, 1.0) == [Grant(5.0)]
    rates[TENANT] = 1000.0
    assert those.grant(1, [Need(TENANT, 500.0)], 1.1, 1.1) == [about(1.0)]  # so long it was 10
    assert those.grant(1, [Need(TENANT, 500.0)], 1.2, 1.2) == [about(100.0)]


def test_an_entity_without_a_limit_is_granted_nothing_and_keeps_no_account() -> None:
    rates: dict[Entity, float] = {TENANT: RATE}
    those = ledger(rates)
    those.grant(1, [Need(TENANT, 1.0)], 0.0, 0.0)
    del rates[TENANT]
    assert those.grant(1, [Need(TENANT, 1.0), Need(OTHER, 1.0)], 1.0, 1.0) == [Grant(0.0, limited=False)] * 2
    assert len(those) == 0


def test_accounts_that_nobody_uses_are_forgotten_a_few_at_a_time() -> None:
    those = Ledger(lambda _: RATE)
    those.grant(1, [Need((0, str(name), ""), 1.0) for name in range(100)], 0.0, 0.0)
    those.grant(1, [Need((0, str(name), ""), 1.0) for name in range(0, 100, 2)], UNUSED_S, UNUSED_S)
    those.forget_unused(UNUSED_S, 10)
    assert len(those) == 95
    for _ in range(20):
        those.forget_unused(UNUSED_S, 10)
    assert len(those) == 50
    those.forget_unused(UNUSED_S, 0)
    Ledger(lambda _: RATE).forget_unused(UNUSED_S, 10)


STEPS = st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 500.0), st.floats(0.0, 500.0), st.integers(1, 3)), max_size=60)


@given(STEPS)
def test_whatever_is_asked_the_grants_stay_below_the_rate_and_a_burst(steps: list[tuple[float, float, float, int]]) -> None:
    those, now, granted = ledger(), 0.0, 0.0
    for later, wanted, debt, gateway in steps:
        now += later
        (grant,) = those.grant(gateway, [Need(TENANT, wanted, debt)], now, now)
        assert 0.0 <= grant.tokens <= wanted + debt + 1e-6
        granted += grant.tokens
        assert granted <= RATE * now + 1e-6


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 300.0), st.floats(0.0, 100.0)), max_size=60))
def test_a_bucket_is_what_a_dumb_model_says(steps: list[tuple[float, float, float]]) -> None:
    """The model counts tokens one millisecond after the other."""
    bucket, level, ms = TokenBucket(RATE, 50.0, 0.0), 0.0, 0
    for later, wanted, spared in steps:
        for _ in range(round(later * 1000)):
            ms += 1
            level = min(50.0, level + RATE / 1000)
        bucket.fill(ms / 1000)
        expected = max(0.0, min(wanted, level - spared))
        assert bucket.take(wanted, spared=spared) == pytest.approx(expected, abs=1e-6)
        level -= expected
