"""A controller passes through the states of its table."""

from libs.cluster import keys
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import Delete
from services.controller.core.model.controller_states import CONTROLLER_TRANSITIONS, ControllerEvent, ControllerState
from tests.cluster.conftest import run_virtually
from tests.controller.running_controller import running_controller
from tests.support.polling import until


async def deposed_and_back() -> None:
    store = MemoryStore()
    async with running_controller(store) as running, running_controller(store.peer(), 2) as standby:
        await until(lambda: running.controller.state is ControllerState.ACTIVE)
        assert standby.controller.state is ControllerState.CAMPAIGNING
        await store.txn([], [Delete(keys.CONTROLLER)])
        await until(
            lambda: standby.controller.state is ControllerState.ACTIVE or running.controller.state is not ControllerState.ACTIVE
        )
        controllers = running.controller, standby.controller
        await until(lambda: sorted(each.state.value for each in controllers) == ["active", "campaigning"])
        assert [each.elected for each in controllers] == [each.state is ControllerState.ACTIVE for each in controllers]


def test_a_deposed_controller_campaigns_again() -> None:
    run_virtually(deposed_and_back())


def test_only_an_elected_controller_becomes_active() -> None:
    assert {before for (before, _), after in CONTROLLER_TRANSITIONS.items() if after is ControllerState.ACTIVE} == {
        ControllerState.ELECTED
    }


def test_an_elected_controller_may_be_deposed_at_any_time() -> None:
    for state in (ControllerState.ELECTED, ControllerState.ACTIVE):
        assert CONTROLLER_TRANSITIONS[state, ControllerEvent.LOST] is ControllerState.DEPOSED
