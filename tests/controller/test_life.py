"""A controller's life is as its table says."""

from libs.cluster import keys
from libs.cluster.memory_store import MemoryStore
from libs.cluster.store import Delete
from services.controller.core.life import LIFE_TRANSITIONS, Life, LifeStep
from tests.cluster.conftest import run_virtually
from tests.controller.office import office, until


async def deposed_and_back() -> None:
    store = MemoryStore()
    async with office(store) as chair, office(store.peer(), 2) as standby:
        await until(lambda: chair.controller.life is Life.IN_OFFICE)
        assert standby.controller.life is Life.CAMPAIGNING
        await store.txn([], [Delete(keys.CONTROLLER)])
        await until(lambda: standby.controller.life is Life.IN_OFFICE or chair.controller.life is not Life.IN_OFFICE)
        lives = chair.controller, standby.controller
        await until(lambda: sorted(each.life.value for each in lives) == ["campaigning", "in office"])
        assert [each.elected for each in lives] == [each.life is Life.IN_OFFICE for each in lives]


def test_who_is_deposed_campaigns_again() -> None:
    run_virtually(deposed_and_back())


def test_no_state_but_the_last_before_the_office_leads_into_it() -> None:
    assert {before for (before, _), after in LIFE_TRANSITIONS.items() if after is Life.IN_OFFICE} == {Life.ELECTED}


def test_whoever_was_elected_may_lose_the_office_at_any_time() -> None:
    for life in (Life.ELECTED, Life.IN_OFFICE):
        assert LIFE_TRANSITIONS[life, LifeStep.LOST] is Life.DEPOSED
