"""Which requests have a trace, and how many spans a process makes."""

from itertools import pairwise
from math import inf
from random import Random

import pytest

from libs.telemetry.tracing.sampling import Allowance, FractionSampler, TraceRules


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 0.99])
def test_a_fraction_of_all_requests_is_drawn(ratio: float) -> None:
    sampler = FractionSampler(ratio, Random(1))
    drawn = sum(sampler.draws() for _ in range(100_000))
    assert drawn == pytest.approx(100_000 * ratio, rel=0.1)


@pytest.mark.parametrize(("ratio", "drawn"), [(0.0, 0), (1.0, 1000)])
def test_none_and_all_are_exact(ratio: float, drawn: int) -> None:
    sampler = FractionSampler(ratio, Random(1))
    assert sum(sampler.draws() for _ in range(1000)) == drawn


def test_draws_are_not_regular() -> None:
    sampler = FractionSampler(0.1, Random(1))
    drawn = [number for number in range(1000) if sampler.draws()]
    assert len({later - earlier for earlier, later in pairwise(drawn)}) > 5


def test_an_allowance_is_taken_whole_or_not_at_all() -> None:
    allowance = Allowance(10)
    assert allowance.takes(7, now=0.0)
    assert not allowance.takes(4, now=0.0)
    assert allowance.takes(3, now=0.0)
    assert allowance.refused == 4


def test_an_allowance_comes_back_after_a_second_and_never_grows() -> None:
    allowance = Allowance(10)
    assert allowance.takes(10, now=5.0)
    assert not allowance.has(1, now=5.9)
    assert allowance.takes(10, now=6.0)
    assert allowance.takes(10, now=60.0)
    assert not allowance.takes(1, now=60.5)


def test_an_api_may_have_a_threshold_of_its_own() -> None:
    rules = TraceRules(slow_ms=100, slow_ms_by_api={1: 30})
    assert (rules.slow_s(0), rules.slow_s(1), rules.fastest_slow_s) == (0.1, 0.03, 0.03)


def test_nothing_is_slow_where_no_spans_are_made() -> None:
    rules = TraceRules(spans_per_second=0, slow_ms_by_api={1: 30})
    assert (rules.slow_s(1), rules.fastest_slow_s) == (inf, inf)
