"""A command that gets on may take long; one that only waits fails, and its failure shows what it waited for."""

import sys

import pytest

from tests.support.steady_command import run_steadily

STEP_S = 60.0


def program(text: str) -> list[str]:
    return [sys.executable, "-S", "-c", text]


def test_what_it_said_is_returned_line_by_line() -> None:
    assert run_steadily(program("print('one'); print('still waiting: two')"), step_s=STEP_S) == ["one", "still waiting: two"]


def test_a_command_that_waits_for_what_never_comes_fails_with_what_it_said() -> None:
    waits = "import signal; print('1 of 12'); print('still waiting: degraded', flush=True); signal.pause()"
    with pytest.raises(AssertionError, match="it got on with nothing for 2 s, and said:\n1 of 12\nstill waiting: degraded"):
        run_steadily(program(waits), step_s=2.0)


def test_a_command_that_fails_shows_what_it_said_and_its_errors() -> None:
    with pytest.raises(AssertionError, match="ended with 3, and said:\nsome\nof it"):
        run_steadily(
            program("import sys; print('some', flush=True); print('of it', file=sys.stderr); sys.exit(3)"), step_s=STEP_S
        )
