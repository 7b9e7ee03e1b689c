"""Which gateways the manager hears, and for how much of the time its buckets fill."""

import pytest

from libs.rpc.contracts.quotas import GRANT_S
from services.quota_manager.core.registered_gateways import ASKS_MAX, RegisteredGateways


@pytest.fixture
def both() -> RegisteredGateways:
    gateways = RegisteredGateways(0.0)
    gateways.register({1: 10, 2: 20}, 0.0)
    return gateways


def confirm(gateways: RegisteredGateways, gateway: int, number: int, now: float) -> None:
    """An ask, and a next one that confirms the first one's answer, at the same time."""
    assert gateways.asked(gateway, gateway * 10, number, 0, now)
    assert gateways.asked(gateway, gateway * 10, number + 1, number, now)


def test_nothing_fills_before_a_gateway_has_confirmed_an_answer(both: RegisteredGateways) -> None:
    both.asked(1, 10, 1, 0, 0.0)
    both.asked(2, 20, 1, 0, 0.0)
    assert (both.filled_s(5.0), both.silent) == (0.0, 2)


def test_a_gateway_whose_answers_never_arrive_stays_silent(both: RegisteredGateways) -> None:
    confirm(both, 1, 1, 0.0)
    for number in range(1, 5):
        both.asked(2, 20, number, 0, 0.2 * number)
    assert both.filled_s(1.0) == pytest.approx(0.5)


def test_the_part_of_a_silent_gateway_is_kept_back_to_the_moment(both: RegisteredGateways) -> None:
    confirm(both, 1, 1, 0.0)
    confirm(both, 2, 1, 0.0)
    for number in range(3, 53):
        both.asked(1, 10, number, number - 1, 0.1 * (number - 2))
    assert both.filled_s(5.0) == pytest.approx(GRANT_S + (5.0 - GRANT_S) / 2)
    assert both.silent == 1


def test_only_an_ask_whose_answer_was_confirmed_counts(both: RegisteredGateways) -> None:
    both.register({1: 10}, 0.0)
    confirm(both, 1, 1, 0.0)
    both.asked(1, 10, 3, 1, 0.8)
    assert both.filled_s(3.0) == pytest.approx(GRANT_S)


def test_a_gateway_that_is_not_registered_has_no_part(both: RegisteredGateways) -> None:
    assert not both.asked(3, 30, 1, 0, 0.0)
    assert not both.asked(1, 9, 1, 0, 0.0)


def test_a_gateway_that_started_anew_has_confirmed_nothing(both: RegisteredGateways) -> None:
    confirm(both, 1, 1, 0.0)
    confirm(both, 2, 1, 0.0)
    both.register({1: 10, 2: 21}, 0.5)
    assert both.filled_s(1.0) == pytest.approx(0.5 + 0.25)


def test_without_a_registered_gateway_nothing_fills() -> None:
    assert RegisteredGateways(0.0).filled_s(5.0) == 0.0


def test_asks_that_are_never_confirmed_take_no_memory(both: RegisteredGateways) -> None:
    for number in range(1, 10 * ASKS_MAX):
        both.asked(1, 10, number, 0, 0.0)
    both.asked(1, 10, 10 * ASKS_MAX, 5, 1.0)  # forgotten long ago
    assert both.filled_s(2.0) == 0.0
    both.asked(1, 10, 10 * ASKS_MAX + 1, 10 * ASKS_MAX, 1.5)
    assert both.filled_s(2.0) == pytest.approx(0.0)
    assert both.filled_s(3.0) == pytest.approx(0.0)
