"""Runs of the model of a shard: short ones by hypothesis, long ones by seed."""

from hypothesis import settings

from tests.coordinator.shard_model import ShardMachine, random_run


def test_lives_in_which_much_happens() -> None:
    for seed in range(300):
        random_run(seed)


ShardMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestShard = ShardMachine.TestCase
