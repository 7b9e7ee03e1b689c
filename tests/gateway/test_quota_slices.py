"""The slices of a gateway: what it may spend, and when it asks for more. The rate is 100 tokens a second, so a slice is 10."""

import pytest

from libs.rpc.contracts.quotas import GRANT_S, Ask, Entity, Grant, Need
from services.gateway.core.quota_slice import CREDIT_S
from services.gateway.core.quota_slices import (
    ANSWER_S_MAX,
    ASK_EVERY_S,
    CALL_EVERY_S,
    LOCAL,
    LOOKED_AT_MAX,
    SLICES_MAX,
    UNUSED_S,
    QuotaSlices,
)

RATE = 100.0
TENANT: Entity = (0, "tenant", "")
OWES: Entity = (0, "owes", "")


def slices(gateways: int = 1) -> QuotaSlices:
    return QuotaSlices(0.0, gateways)


def asked(those: QuotaSlices, now: float) -> Ask:
    ask = those.next_ask(now)
    assert ask is not None
    return ask


def granted(those: QuotaSlices, tokens: float, now: float, owed_elsewhere: float = 0.0) -> Ask:
    """An ask whose only need is granted so many tokens at once."""
    ask = asked(those, now)
    those.answered(ask, [Grant(tokens, owed_elsewhere)], now)
    return ask


def waits(those: QuotaSlices, entity: Entity, rate: float, tokens: float, now: float) -> float:
    """The seconds that clients must wait after a request."""
    those.spend(entity, rate, tokens, now)
    return those.wait_s(entity, now)


def test_a_request_is_carried_out_first_and_owed() -> None:
    those = slices()
    assert waits(those, TENANT, RATE, 50.0, 0.0) == pytest.approx(0.5 - CREDIT_S)
    assert asked(those, 0.0).needs == (Need(TENANT, 10.0, 50.0, used=50.0),)


def test_what_was_granted_is_spent_without_a_wait() -> None:
    those = slices()
    those.spend(TENANT, RATE, 1.0, 0.0)
    granted(those, 11.0, 0.0)
    assert waits(those, TENANT, RATE, 10.0, 0.1) == 0.0
    assert waits(those, TENANT, RATE, 15.0, 0.1) == pytest.approx(0.15 - CREDIT_S)


def test_a_slice_is_asked_for_again_below_its_half() -> None:
    those = slices()
    those.spend(TENANT, RATE, 0.0, 0.0)
    granted(those, 10.0, 0.0)
    those.spend(TENANT, RATE, 4.0, 0.1)
    assert those.next_ask(0.1) is None
    those.spend(TENANT, RATE, 2.0, 0.1)
    assert asked(those, 0.1).needs == (Need(TENANT, 6.0, used=6.0),)


def test_what_is_owed_elsewhere_is_waited_for_too() -> None:
    those = slices()
    those.spend(TENANT, RATE, 10.0, 0.0)
    granted(those, 0.0, 0.0, owed_elsewhere=30.0)
    assert those.wait_s(TENANT, 0.0) == pytest.approx(0.4 - CREDIT_S)


def test_what_an_entity_owes_is_told_in_seconds_of_its_rate() -> None:
    those = slices()
    assert those.owed_s(TENANT) == 0.0
    those.spend(TENANT, RATE, 50.0, 0.0)
    granted(those, 20.0, 0.0, owed_elsewhere=40.0)
    assert those.owed_s(TENANT) == pytest.approx(0.7)


def test_tokens_that_nobody_uses_go_back_and_are_gone_here() -> None:
    those = slices()
    those.spend(TENANT, RATE, 0.0, 0.0)
    granted(those, 10.0, 0.0)
    assert asked(those, CALL_EVERY_S).needs == (Need(TENANT, returned=10.0),)
    assert waits(those, TENANT, RATE, 15.0, CALL_EVERY_S) == pytest.approx(0.15 - CREDIT_S)


def test_tokens_are_gone_a_grant_s_life_after_they_were_asked_for() -> None:
    those = slices(gateways=1_000_000)  # alone it gets next to nothing
    those.spend(TENANT, RATE, 0.0, 0.0)
    granted(those, 10.0, 0.0)
    assert waits(those, TENANT, RATE, 1.0, GRANT_S) == 0.0
    those.spend(TENANT, RATE, 20.0, GRANT_S + 0.01)
    assert those.owed_s(TENANT) == pytest.approx(0.2, rel=0.01)


def test_asks_are_apart_and_one_at_a_time() -> None:
    those = slices()
    those.spend(TENANT, RATE, 50.0, 0.0)
    first = asked(those, 0.0)
    assert those.next_ask(ASK_EVERY_S) is None
    those.answered(first, [Grant(5.0, 0.0)], ASK_EVERY_S)
    assert asked(those, ASK_EVERY_S).confirmed == first.number


def test_an_answer_that_comes_late_counts_for_nothing() -> None:
    those = slices(gateways=1_000_000)  # alone it gets next to nothing
    those.spend(TENANT, RATE, 50.0, 0.0)
    late = asked(those, 0.0)
    second = asked(those, ANSWER_S_MAX)
    assert (second.number, second.confirmed) == (late.number + 1, 0)
    those.answered(late, [Grant(50.0, 0.0)], ANSWER_S_MAX)
    assert those.owed_s(TENANT) == pytest.approx(0.5, rel=0.01)


def test_an_ask_that_failed_is_asked_again_soon() -> None:
    those = slices()
    those.spend(TENANT, RATE, 50.0, 0.0)
    those.failed(asked(those, 0.0))
    assert those.next_ask(ASK_EVERY_S / 2) is None
    assert asked(those, ASK_EVERY_S).confirmed == 0


def test_a_gateway_without_load_calls_now_and_then() -> None:
    those = slices()
    those.answered(asked(those, 0.0), [], 0.0)
    assert those.next_ask(CALL_EVERY_S - 0.01) is None
    assert asked(those, CALL_EVERY_S).needs == ()


def test_alone_a_gateway_spends_its_part_of_the_limit() -> None:
    those = slices(gateways=4)
    those.spend(TENANT, RATE, 30.0, 0.0)
    granted(those, 0.0, 0.0)
    assert not those.is_alone(GRANT_S)
    assert those.wait_s(TENANT, GRANT_S) == pytest.approx(0.3 - CREDIT_S)
    assert those.is_alone(GRANT_S + 0.4)
    assert those.wait_s(TENANT, GRANT_S + 0.4) == pytest.approx(4 * 0.2 - CREDIT_S)  # 25 a second repaid 10 of 30
    assert those.wait_s(TENANT, GRANT_S + 9.0) == 0.0
    assert waits(those, TENANT, RATE, 2.5, GRANT_S + 9.0) == 0.0  # a tenth of a second of its part is in hand
    assert waits(those, TENANT, RATE, 2.5, GRANT_S + 9.0) == 0.0  # and as much credit
    assert waits(those, TENANT, RATE, 1.0, GRANT_S + 9.0) > 0.0


def test_an_answer_ends_the_time_alone() -> None:
    those = slices(gateways=4)
    those.spend(TENANT, RATE, 30.0, 0.0)
    granted(those, 0.0, 0.0)
    granted(those, 0.0, GRANT_S + 0.4)
    assert those.wait_s(TENANT, GRANT_S + 1.0) == pytest.approx(0.2 - CREDIT_S)


def test_a_new_limit_counts_at_once() -> None:
    those = slices()
    those.spend(TENANT, RATE, 50.0, 0.0)
    assert waits(those, TENANT, RATE / 10, 0.0, 0.0) == pytest.approx(5.0 - CREDIT_S)


def test_entities_that_nobody_uses_are_forgotten_and_debts_are_not() -> None:
    those = slices()
    those.spend(TENANT, RATE, 0.0, 0.0)
    those.spend(OWES, RATE, 1e6, 0.0)
    those.answered(asked(those, UNUSED_S + 1.0), [Grant(0.0, 0.0)], UNUSED_S + 1.0)
    assert len(those) == 1


def test_entities_without_a_limit_are_forgotten_and_those_with_another_one_take_it() -> None:
    those = slices()
    for entity in (TENANT, OWES):
        those.spend(entity, RATE, 50.0, 0.0)
    those.follow({OWES: RATE / 10}.get)
    assert those.wait_s(TENANT, 0.0) == 0.0
    assert those.wait_s(OWES, 0.0) == pytest.approx(5.0 - CREDIT_S)


def test_a_debt_within_the_credit_is_paid_and_not_waited_for() -> None:
    those = slices()
    assert waits(those, TENANT, RATE, 10.0, 0.0) == 0.0
    assert asked(those, 0.0).needs == (Need(TENANT, 10.0, 10.0, used=10.0),)


def test_one_ask_tells_of_so_many_in_need_and_the_next_of_others() -> None:
    those = slices()
    names = [str(number) for number in range(LOOKED_AT_MAX + 1)]
    for name in names:
        those.spend((0, name, ""), RATE, 1.0, 0.0)
    first = asked(those, 0.0)
    assert [need.entity[1] for need in first.needs] == names[:-1]
    those.failed(first)
    assert [need.entity[1] for need in asked(those, ASK_EVERY_S).needs] == [names[-1], *names[:-2]]


def test_who_is_in_need_is_told_in_each_ask_however_many_are_not() -> None:
    those = slices()
    for number in range(3 * LOOKED_AT_MAX):
        those.spend((0, str(number), ""), RATE, 0.0, 0.0)
    for now in (0.0, 0.06, 0.12):
        ask = asked(those, now)
        those.answered(ask, [Grant(need.wanted) for need in ask.needs], now)
    those.spend(TENANT, RATE, 50.0, 0.15)
    for now in (0.18, 0.24, 0.30, 0.36):
        ask = asked(those, now)
        assert TENANT in [need.entity for need in ask.needs]
        those.failed(ask)


def test_the_more_are_in_need_the_more_each_asks_for() -> None:
    those = slices()
    for number in range(4 * LOOKED_AT_MAX):
        those.spend((0, str(number), ""), RATE, 20.0, 0.0)
    assert {need.wanted for need in asked(those, 0.0).needs} == {5 * 10.0}


def test_nobody_is_asked_about_an_entity_that_only_this_gateway_knows() -> None:
    those, local = slices(gateways=4), (0, "", LOCAL + "long")
    assert waits(those, local, RATE, 30.0, 0.0) == pytest.approx(4 * 0.3 - CREDIT_S)
    those.answered(asked(those, 0.0), [], 0.0)
    assert asked(those, 0.4).needs == ()
    assert those.wait_s(local, 0.4) == pytest.approx(4 * 0.2 - CREDIT_S)


def test_no_more_entities_are_known_than_may_be() -> None:
    those = slices()
    for number in range(SLICES_MAX + 10):
        those.spend((0, str(number), ""), RATE, 1e6, 0.0)
    assert len(those) == SLICES_MAX


def test_alone_a_debt_takes_as_long_as_this_gateways_part_pays_it() -> None:
    those = slices(gateways=4)
    assert waits(those, TENANT, RATE, 30.0, GRANT_S) == pytest.approx(4 * 0.3 - CREDIT_S)


def test_a_slice_pays_by_itself_while_half_of_it_is_left() -> None:
    those = slices()
    known = those.spend(TENANT, RATE, 0.0, 0.0)
    assert not known.takes(1.0, 0.0), "it has nothing"
    granted(those, 10.0, 0.0)
    assert known.takes(5.0, 0.1)
    assert not known.takes(1.0, 0.1)
    assert (known.tokens, those.in_need) == (5.0, False)
    assert not known.takes(0.0, GRANT_S + 0.01), "the grant is too old"


def test_what_a_slice_paid_by_itself_is_used_and_not_returned() -> None:
    those = slices()
    known = those.spend(TENANT, RATE, 0.0, 0.0)
    granted(those, 10.0, 0.0)
    assert known.takes(4.0, CALL_EVERY_S - 0.01)
    assert asked(those, CALL_EVERY_S).needs == ()
    assert asked(those, 2 * CALL_EVERY_S).needs == (Need(TENANT, returned=6.0, used=4.0),)


@pytest.mark.parametrize("how", ["no limit", "unused", "crowded out"])
def test_a_forgotten_slice_pays_nothing(how: str) -> None:
    those = slices()
    known = those.spend(TENANT, RATE, 0.0, 0.0)
    granted(those, 10.0, 0.0)
    if how == "no limit":
        those.follow(lambda _: None)
        assert those.wait_s(TENANT, 0.0) == 0.0
    elif how == "crowded out":
        for number in range(SLICES_MAX):
            those.spend((0, str(number), ""), RATE, 0.0, 0.0)
    else:
        those.follow(lambda _: RATE)
        those.answered(asked(those, CALL_EVERY_S), [Grant(0.0)], CALL_EVERY_S)
        those.next_ask(UNUSED_S + 1.0)
        assert len(those) == 0
    assert not known.takes(0.0, 0.5)


def test_throttle_times_are_told_with_the_next_need_and_once() -> None:
    those = slices()
    those.spend(TENANT, RATE, 50.0, 0.0)
    for seconds in (0.25, 0.5):
        those.note_throttled(TENANT, seconds)
    assert granted(those, 0.0, 0.0).needs == (Need(TENANT, 10.0, 50.0, used=50.0, throttled=2, throttle_s=0.75),)
    assert asked(those, ASK_EVERY_S).needs == (Need(TENANT, 10.0, 50.0),)
