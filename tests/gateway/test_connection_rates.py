"""How fast connections may be made: the buckets of ports and addresses, and what is forgotten."""

from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.core.connection_rates import ADDRESSES_MAX, BURST_S, DELAY_S_MAX, AddressRates, RateBucket


def made_at_once(rates: AddressRates, address: str, limit: float, gateways: int, now: float, tries: int = 1000) -> int:
    """How many of `tries` connections are let in at one moment."""
    return sum(not rates.delay_s(address, limit, gateways, now) for _ in range(tries))


def test_a_burst_is_ten_seconds_worth_and_then_the_rate_holds() -> None:
    rates = AddressRates()
    assert made_at_once(rates, "a", 3.0, 1, now=0.0) == 30
    assert [made_at_once(rates, "a", 3.0, 1, now=at) for at in (1.0, 2.0, 4.0)] == [3, 3, 6]
    assert made_at_once(rates, "a", 3.0, 1, now=1000.0) == 30


def test_each_of_n_gateways_takes_its_part_and_at_least_one_connection() -> None:
    assert made_at_once(AddressRates(), "a", 3.0, 3, now=0.0) == 10
    rates = AddressRates()
    assert made_at_once(rates, "a", 1.0, 50, now=0.0) == 1
    assert made_at_once(rates, "a", 1.0, 50, now=49.0) == 0
    assert made_at_once(rates, "a", 1.0, 50, now=50.0) == 1


def test_a_delay_lasts_until_there_is_a_token_and_never_longer_than_a_second() -> None:
    rates = AddressRates()
    made_at_once(rates, "a", 4.0, 1, now=0.0)
    assert rates.delay_s("a", 4.0, 1, 0.0) == 0.25
    assert rates.delay_s("a", 4.0, 1, 0.125) == 0.125
    assert rates.delay_s("a", 4.0, 1, 0.25) == 0.0
    made_at_once(rates, "b", 1.0, 50, now=0.0)
    assert rates.delay_s("b", 1.0, 50, 0.0) == DELAY_S_MAX


def test_a_connection_that_is_delayed_takes_no_token() -> None:
    rates = AddressRates()
    made_at_once(rates, "a", 1.0, 1, now=0.0, tries=1000)
    assert made_at_once(rates, "a", 1.0, 1, now=1.0) == 1


def test_a_new_limit_begins_with_a_full_bucket_and_a_new_number_of_gateways_does_not() -> None:
    rates = AddressRates()
    assert made_at_once(rates, "a", 2.0, 2, now=0.0) == 10
    assert made_at_once(rates, "a", 2.0, 1, now=0.0) == 0, "no token is minted when a gateway goes"
    assert made_at_once(rates, "a", 2.0, 1, now=1.0) == 2, "and the rate is the new one"
    assert made_at_once(rates, "a", 3.0, 1, now=1.0) == 30


def test_a_gateway_that_comes_takes_tokens_beyond_the_new_depth() -> None:
    rates = AddressRates()
    assert not rates.delay_s("a", 4.0, 1, 0.0)
    assert made_at_once(rates, "a", 4.0, 4, now=0.0) == 10


def test_addresses_whose_buckets_are_full_are_forgotten() -> None:
    rates = AddressRates()
    rates.delay_s("a", 1.0, 1, 0.0)
    rates.delay_s("b", 1.0, 1, 0.5)
    rates.forget_full(0.9)
    assert len(rates) == 2
    rates.forget_full(1.0)
    assert len(rates) == 1
    rates.delay_s("c", 1.0, 1, 1.6)
    assert len(rates) == 1, "each new connection forgets, too"


def test_the_addresses_are_bounded_and_the_one_that_connected_longest_ago_goes_first() -> None:
    rates = AddressRates()
    made_at_once(rates, "first", 1.0, 1, now=0.0)
    for number in range(ADDRESSES_MAX - 1):
        rates.delay_s(f"10.{number}", 1.0, 1, 0.0)
    assert rates.delay_s("first", 1.0, 1, 0.0), "it is known, and has just been used"
    for number in range(10):
        rates.delay_s(f"11.{number}", 1.0, 1, 0.0)
    assert len(rates) == ADDRESSES_MAX
    assert rates.delay_s("first", 1.0, 1, 0.0), "those before it went"


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 40)), min_size=1, max_size=20),
    st.integers(1, 20),
    st.integers(1, 4),
)
def test_over_any_time_no_more_are_let_in_than_the_rate_and_one_burst(
    moments: list[tuple[float, int]], limit: int, gateways: int
) -> None:
    rates, now = AddressRates(), 0.0
    let_in: list[tuple[float, int]] = []
    for pause, tries in moments:
        now += pause
        let_in.append((now, made_at_once(rates, "a", limit, gateways, now, tries)))
        rates.forget_full(now)
    part = limit / gateways
    for first in range(len(let_in)):
        for last in range(first, len(let_in)):
            connections = sum(number for _, number in let_in[first : last + 1])
            lasted = let_in[last][0] - let_in[first][0]
            assert connections <= max(1.0, BURST_S * part) + part * lasted + 1e-6


def test_a_port_waits_once_its_burst_is_used_and_never_owes() -> None:
    bucket = RateBucket(2.0, 0.0)
    for _ in range(19):
        bucket.take(0.0)
        assert bucket.wait_s(0.0) == 0.0
    for _ in range(5):
        bucket.take(0.0)
        assert bucket.wait_s(0.0) == 0.5
    assert bucket.wait_s(0.25) == 0.25
    assert bucket.wait_s(0.5) == 0.0


def test_a_port_with_the_rate_zero_takes_one_connection_a_second() -> None:
    bucket = RateBucket(0.0, 0.0)
    bucket.take(0.0)
    assert bucket.wait_s(0.0) == bucket.wait_s(100.0) == DELAY_S_MAX
