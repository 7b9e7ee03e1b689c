"""Runs of the model of committed offsets: short ones by hypothesis, long ones by seed."""

from hypothesis import settings

from tests.group_coordinator.offsets.offsets_model import OffsetsModel, random_run


def test_lives_in_which_much_happens() -> None:
    for seed in range(100):
        random_run(seed)


TestOffsetsModel = OffsetsModel.TestCase
TestOffsetsModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
