"""What a watch says of the alerts of a situation, with answers in place of a Prometheus."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.system.monitoring.watch import FIRING, STARVED, Watch


class Answers:
    """The alerts that fired, and whether a scrape took long."""

    def __init__(self, *fired: str, starved: bool) -> None:
        labelled = [({"alertname": name}, [1.0]) for name in fired]
        self._found: Mapping[str, Any] = {FIRING: labelled, STARVED: [({"job": "penstock"}, [1.0])] if starved else []}

    def firing(self) -> set[str]:
        return set()

    def query(self, expression: str) -> Any:
        return []  # it is mended: nothing fires any more

    def query_range(self, expression: str, start: float, end: float) -> Any:
        return self._found[expression]


def problems_of(answers: Any) -> list[str]:
    watch = Watch(answers)
    with watch.situation("a disk is full", "PenstockDiskFull"):
        pass
    return watch.problems


@pytest.mark.parametrize(("starved", "other"), [(False, "PenstockProduceSlow"), (True, "PenstockDeadLetters")])
def test_an_alert_of_another_situation_is_a_problem(starved: bool, other: str) -> None:
    answers = Answers("PenstockDiskFull", other, starved=starved)
    assert problems_of(answers) == [f"a disk is full: ['{other}'] fired, too"]


def test_what_is_true_of_processes_without_cpu_may_fire_while_they_have_none() -> None:
    assert problems_of(Answers("PenstockDiskFull", "PenstockProduceSlow", starved=True)) == []


def test_an_alert_that_did_not_fire_is_a_problem_even_then() -> None:
    assert problems_of(Answers("PenstockProduceSlow", starved=True)) == ["a disk is full: ['PenstockDiskFull'] did not fire"]
