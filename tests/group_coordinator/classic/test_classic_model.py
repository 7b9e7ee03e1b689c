"""Runs of the model of a classic group: short ones by hypothesis, long ones by seed."""

from hypothesis import settings

from tests.group_coordinator.classic.classic_model import ClassicModel, random_run


def test_lives_in_which_much_happens() -> None:
    for seed in range(100):
        random_run(seed)


TestClassicModel = ClassicModel.TestCase
TestClassicModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
