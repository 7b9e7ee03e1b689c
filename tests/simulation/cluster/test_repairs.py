"""A volume that goes back loses nothing; and planted bugs in what follows a repair are caught."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.cluster.repair_mutants import BUGS
from tests.simulation.cluster.repairs import one_volume_goes_back
from tests.simulation.cluster.scenarios import play


@pytest.mark.parametrize("seed", range(3))
def test_the_last_in_sync_replica_on_an_older_snapshot_of_its_volume_waits_for_those_that_have_more(seed: int) -> None:
    """It led at once, and the others cut what had been acknowledged."""
    play(seed, one_volume_goes_back)


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", BUGS.caught)
@pytest.mark.usefixtures("quiet")
def test_a_planted_bug_is_caught(name: str) -> None:
    catch = BUGS.seeds_to_catch(name)
    assert catch.violation is not None, f"{catch.seeds} seeds did not notice"
