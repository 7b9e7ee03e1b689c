"""Each bug that is planted below the log is caught within its seeds, and all bugs still fit the code."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.planted import KINDS, Mutant, bugs_of


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", bugs_of("disk").caught)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert bugs_of("disk").seeds_to_catch(name).violation is not None


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in (*bugs_of(kind).caught, *bugs_of(kind).guarded)]
)
def test_a_planted_bug_still_fits_the_code(kind: str, name: str) -> None:
    """The long runs are rare: a bug whose line was rewritten since would be noticed too late. So would an undefined name."""
    with bugs_of(kind).plant(name):
        pass


def fits(number: int) -> bool:
    return any(each == number for each in (1, 2))


@pytest.mark.parametrize("wrong", ["numbers == number", "each == KIND", "(lambda: missing)()"])
def test_a_planted_bug_that_would_raise_name_error_is_refused(wrong: str) -> None:
    with pytest.raises(AssertionError, match="not defined"), Mutant(fits, "each == number", wrong).planted():
        pass


@pytest.mark.parametrize("wrong", ["number is KINDS", "abs(each) == number", "(lambda: each < number)()"])
def test_a_planted_bug_may_use_locals_globals_and_builtins(wrong: str) -> None:
    with Mutant(fits, "each == number", wrong).planted():
        fits(1)
    assert fits(2)
    assert not fits(3)
