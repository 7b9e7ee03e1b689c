"""Runs of the model of groups that change their protocol: long ones by seed."""

import pytest

from tests.group_coordinator.conversion.mixed_model import random_run


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_no_partition_is_owned_twice_and_all_converge(first: int) -> None:
    conversions = sum(random_run(seed) for seed in range(first, first + 30))
    assert conversions > 30, "hardly any group changed its protocol"
