"""Producer ids are unique, and last while the controller is away."""

import asyncio

import pytest

from libs.rpc.contracts.controller import ProducerIdBlock
from services.gateway.producer_ids import ProducerIds
from services.gateway.state import ControllerUnavailable
from tests.gateway.conftest import until


class Controller:
    """Hands out blocks of three."""

    def __init__(self) -> None:
        self.away = False
        self.blocks = 0

    async def allocate(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if self.away:
            raise ControllerUnavailable("away")
        self.blocks += 1
        return ProducerIdBlock(3 * (self.blocks - 1), 3)


async def test_many_at_once_get_different_ids() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    given = await asyncio.gather(*(ids.next() for _ in range(50)))
    assert len(set(given)) == 50
    ids.close()


async def test_two_blocks_last_while_the_controller_is_away_and_then_it_is_said() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    ids.prefetch()
    await until(lambda: controller.blocks == 2)
    controller.away = True
    assert [await ids.next() for _ in range(6)] == list(range(6))
    with pytest.raises(ControllerUnavailable):
        await ids.next()
    controller.away = False
    assert await ids.next() == 6
    ids.close()
