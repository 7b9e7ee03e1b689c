"""Some of the bugs in `mutants.py`, planted into a whole cluster, are caught: over sockets, and over links of nodes."""

from functools import partial

import pytest

from tests.simulation.cluster.mutants import BUGS, violations_of

SHORT_S = 20.0


@pytest.mark.parametrize(
    "name",
    [
        "the leader counts itself alone",
        "duplicates are stored",
        "an append amid a round is owed no sync",
        "a link delivers the last frame first",
        "an answer by a link gives no budget back",
    ],
)
def test_a_planted_bug_is_caught_by_a_short_run(name: str) -> None:
    catch = BUGS.seeds_to_catch(name, violations_of=partial(violations_of, faulty_s=SHORT_S))
    assert catch.violation is not None, f"{catch.seeds} seeds did not notice"
