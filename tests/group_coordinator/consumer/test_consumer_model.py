"""Runs of the model of a consumer group: short ones by hypothesis, long ones by seed."""

from hypothesis import settings

from tests.group_coordinator.consumer.consumer_model import ConsumerModel, random_run


def test_lives_in_which_much_happens() -> None:
    for seed in range(60):
        random_run(seed)


TestConsumerModel = ConsumerModel.TestCase
TestConsumerModel.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
