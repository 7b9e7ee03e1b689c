"""A ListOffsets for one partition: sent to its leader without a task, and what goes wrong is left to the handler."""

from typing import Any

import pytest

from libs.wire.errors import ErrorCode
from services.gateway.core import lookups
from services.gateway.exchange.request_context import GatewayState
from services.gateway.handlers import list_offsets
from services.gateway.shortcuts import single_list_offsets
from tests.gateway.conftest import Rig
from tests.gateway.listed_offsets import answer, ask, look_up
from tests.support.polling import until

LATEST = -1
PLAIN = (0, 77, LATEST, 0)


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The partitions of each request that the handler took over, in a task."""
    begun: list[object] = []
    ask_leaders = list_offsets.ask_leaders

    async def noted(gateway: GatewayState, partitions: Any, request: Any) -> Any:
        begun.append(partitions)
        return await ask_leaders(gateway, partitions, request)

    monkeypatch.setattr(list_offsets, "ask_leaders", noted)
    return begun


async def test_the_leaders_answer_needs_no_task(rig: Rig, handled: list[object]) -> None:
    await rig.start()
    client = await rig.client(1)
    assert await look_up(client, LATEST) == PLAIN
    assert (rig.nodes[1].lookups, handled) == (1, [])


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE])
async def test_after_a_passing_error_the_leader_is_asked_again(rig: Rig, handled: list[object], error: ErrorCode) -> None:
    await rig.start()
    rig.nodes[1].lookup_errors = [error, error]
    client = await rig.client(1)
    assert await look_up(client, LATEST) == PLAIN
    assert (rig.nodes[1].lookups, len(handled)) == (3, 1)


async def test_another_error_reaches_the_client_and_the_metrics(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].lookup_errors = [ErrorCode.FENCED_LEADER_EPOCH] * 2
    client = await rig.client(1)
    assert (await look_up(client, LATEST))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert 'api="list_offsets",error="FENCED_LEADER_EPOCH"' in rig.metrics.render().decode()


async def test_a_leader_that_is_replaced_meanwhile_is_not_waited_for(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, LATEST)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    await rig.lead(0, 2, 1)
    assert await answer(client) == PLAIN
    assert rig.nodes[2].lookups == 1
    await until(lambda: rig.nodes[1].cancelled == 1)


async def test_a_leader_that_dies_meanwhile_is_waited_for(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, LATEST)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    await rig.nodes[1].stop()
    await rig.lead(0, 2, 1)
    assert await answer(client) == PLAIN


async def test_a_lookup_does_not_follow_a_leader_that_died_under_it(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, 1000)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    await rig.nodes[1].stop()
    assert (await answer(client))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await rig.lead(0, 2, 1)
    assert rig.nodes[2].lookups == 0
    assert (await look_up(client, 1000))[0] == 0
    assert 'api="list_offsets",error="NOT_LEADER_OR_FOLLOWER"' in rig.metrics.render().decode()


async def test_a_lookup_whose_leader_is_replaced_is_taken_back_and_not_repeated(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, 1000)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    await rig.lead(0, 2, 1)
    assert (await answer(client))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await until(lambda: rig.nodes[1].cancelled == 1)
    assert rig.nodes[2].lookups == 0


async def test_a_lookup_that_takes_too_long_is_taken_back_and_not_repeated(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "ANSWER_S_MAX", 0.2)
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, 1000)
    assert (await answer(client))[0] == ErrorCode.REQUEST_TIMED_OUT
    await until(lambda: rig.nodes[1].cancelled == 1)
    assert rig.nodes[1].lookups == 1


async def test_a_lookup_that_its_leader_has_no_time_for_is_not_repeated(rig: Rig, handled: list[object]) -> None:
    await rig.start()
    rig.nodes[1].lookup_errors = [ErrorCode.REQUEST_TIMED_OUT]
    client = await rig.client(1)
    assert (await look_up(client, 1000))[0] == ErrorCode.REQUEST_TIMED_OUT
    assert (rig.nodes[1].lookups, handled) == (1, [])


async def test_a_client_that_leaves_takes_its_request_back(rig: Rig) -> None:
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, LATEST)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    await client.close()
    await until(lambda: rig.nodes[1].cancelled == 1)


async def test_a_leader_that_is_silent_is_asked_again_by_the_handler(
    rig: Rig, handled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_list_offsets, "TIMEOUT_S", 0.2)
    await rig.start()
    rig.nodes[1].holding_lookups = True
    client = await rig.client()
    ask(client, LATEST)
    await until(lambda: len(rig.nodes[1].held_lookups) == 1)
    rig.nodes[1].holding_lookups = False
    assert await answer(client) == PLAIN
    assert (rig.nodes[1].lookups, len(handled)) == (2, 1)
