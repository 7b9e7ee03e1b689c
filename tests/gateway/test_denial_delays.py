"""Denials wait longer with each one from an address or for a user, up to a bound, and take bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.denial_delays import FORGOTTEN_S, KNOWN_MAX, LONGEST, DenialDelays


def test_each_denial_from_an_address_waits_twice_as_long_up_to_a_bound() -> None:
    delays = DenialDelays(0.1)
    waits = [delays.next_s("host", f"user-{number}", number) for number in range(8)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6, 1.6])
    assert delays.next_s("other", "another", 8) == 0.1


def test_each_denial_for_a_user_waits_twice_as_long_from_wherever_it_comes() -> None:
    delays = DenialDelays(0.1)
    waits = [delays.next_s(f"host-{number}", "user", number) for number in range(6)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.6])


def test_an_address_begins_anew_after_a_while() -> None:
    delays = DenialDelays(0.1)
    delays.next_s("host", "", 0.0)
    assert delays.next_s("host", "", FORGOTTEN_S) == 0.2
    assert delays.next_s("host", "", 2 * FORGOTTEN_S + 0.1) == 0.1


def test_without_a_delay_there_is_none() -> None:
    delays = DenialDelays(0.0)
    assert [delays.next_s("host", "user", 0.0) for _ in range(100)] == [0.0] * 100


def test_memory_is_bounded_and_the_oldest_are_forgotten() -> None:
    delays = DenialDelays(0.1)
    delays.next_s("first", "", 0.0)
    for number in range(KNOWN_MAX):
        delays.next_s(f"host-{number}", "", 1.0)
    assert len(delays) == KNOWN_MAX
    assert delays.next_s("first", "", 2.0) == 0.1
    assert delays.next_s(f"host-{KNOWN_MAX - 1}", "", 2.0) == 0.2
    delays.next_s("host", "x" * 1_000_000, 3.0)
    assert delays.next_s("another", "x" * 64, 3.0) == 0.2


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "u", "v"]), st.floats(0, 100)), max_size=60))
def test_whatever_comes_no_denial_waits_less_than_the_first_or_longer_than_the_bound(
    denials: list[tuple[str, str, float]],
) -> None:
    delays, now = DenialDelays(0.1), 0.0
    for host, user, later in denials:
        now += later
        assert 0.1 <= delays.next_s(host, user, now) <= 0.1 * LONGEST
