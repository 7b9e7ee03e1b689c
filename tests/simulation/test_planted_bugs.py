"""Does the net catch fish? Each planted bug must be found, and within a few seeds."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutants import MUTANTS, seeds_to_catch


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    seeds, _ = seeds_to_catch(name)
    assert seeds <= len(MUTANTS[name][1])
