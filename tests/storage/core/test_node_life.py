"""The life of a node, by its table."""

import pytest

from services.storage.core.node_life import NODE_TRANSITIONS, NodeState, NodeStep, after

ENDED = {NodeState.STOPPING, NodeState.STOPPED}


def test_a_node_may_be_stopped_in_every_state_but_once() -> None:
    assert {state for state, step in NODE_TRANSITIONS if step is NodeStep.STOP} == set(NodeState) - ENDED
    assert {after(state, NodeStep.STOP) for state in set(NodeState) - ENDED} == {NodeState.STOPPING}


def test_a_start_passes_every_state_before_the_stop_once() -> None:
    passed = [NodeState.CREATED]
    while steps := [step for state, step in NODE_TRANSITIONS if state is passed[-1] and step is not NodeStep.STOP]:
        [step] = steps
        passed.append(after(passed[-1], step))
    assert passed == [state for state in NodeState if state not in ENDED]


@pytest.mark.parametrize("state", sorted(ENDED, key=lambda state: state.value))
def test_a_node_that_was_stopped_never_starts_again(state: NodeState) -> None:
    for step in set(NodeStep) - {NodeStep.ALL_STOPPED}:
        with pytest.raises(AssertionError):
            after(state, step)
