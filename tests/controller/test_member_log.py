"""Processes that come and go are in the log of one controller each: the active one, or its successor."""

import logging

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ElectedController
from libs.cluster.store import Delete, Put
from tests.cluster.conftest import run_virtually
from tests.controller.images import storage
from tests.controller.running_controller import register, running_controller, vanish
from tests.support.polling import until

LOGGER = "controller"
FORMER = Put(keys.CONTROLLER, encode(ElectedController(1, 100)))


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    return [
        (record.message, record.fields["node"])  # type: ignore[attr-defined]
        for record in caplog.records
        if record.name == LOGGER and record.message.startswith("member")
    ]


def test_the_active_controller_logs_processes_that_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1))
        async with running_controller(store) as running:
            await running.elected()
            await register(store, storage(2))
            await until(lambda: 2 in running.image.members("storage"))
            await vanish(store, 1)
            await until(lambda: 1 not in running.image.members("storage"))
            await running.create()  # another change of the image

    run_virtually(scenario())
    assert lines(caplog) == [("member registered", 2), ("member gone", 1)]  # 1 was there before


def test_a_standby_logs_no_members_that_the_active_controller_logs(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.txn([], [FORMER])
        await register(store, storage(1))
        async with running_controller(store, 2) as standby:
            await vanish(store, 1)
            await register(store, storage(2))
            await until(lambda: 2 in standby.image.members("storage"))

    run_virtually(scenario())
    assert lines(caplog) == []


def test_a_takeover_logs_who_came_and_went_between_the_controllers_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.txn([], [FORMER])
        await register(store, storage(1), storage(2), storage(3))
        async with running_controller(store, 2) as successor:
            await register(store, storage(4))
            await until(lambda: 4 in successor.image.members("storage"))
            gone, again = Delete(keys.member("storage", 1)), Put(keys.member("storage", 2), encode(storage(2, incarnation=2)))
            await store.txn([], [Delete(keys.CONTROLLER), gone, again])
            await successor.elected()

    run_virtually(scenario())
    assert lines(caplog) == [("member gone", 1), ("member registered", 2)]


def test_a_term_begins_with_a_line_that_names_all_members(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1), storage(2))
        async with running_controller(store) as running:
            await running.elected()

    run_virtually(scenario())
    (begun,) = [record.fields for record in caplog.records if record.message == "active controller"]  # type: ignore[attr-defined]
    assert begun["storage"] == [1, 2]


def test_a_controller_that_was_deposed_leaves_the_members_to_its_successor(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1))
        async with running_controller(store) as deposed:
            await deposed.elected()
            caplog.clear()
            await store.txn([], [Put(keys.CONTROLLER, encode(ElectedController(2, 200))), Delete(keys.member("storage", 1))])
            await until(lambda: 1 not in deposed.image.members("storage"))

    run_virtually(scenario())
    assert lines(caplog) == []
