"""A scenario that fails says why, and nothing else: its world is discarded in silence."""

import gc
import sys

import pytest

from tests.simulation.cluster.scenarios import Cluster, play

SEED = 17


async def fails_with_a_controller_at_hand(cluster: Cluster) -> None:
    elected = cluster.elected()
    assert elected is not None
    controller = elected.what
    assert not controller.elected, "this scenario fails"


def test_a_scenario_that_fails_is_discarded_in_silence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    complaints: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: complaints.append(repr(unraisable.exc_value)))
    with pytest.raises(AssertionError, match="this scenario fails") as failure:
        play(SEED, fails_with_a_controller_at_hand)
    del failure
    gc.collect()
    assert complaints == []
    assert capfd.readouterr() == ("", "")
