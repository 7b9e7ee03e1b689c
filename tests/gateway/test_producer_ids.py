"""Producer ids: unique, and available while the controller is away."""

import asyncio
import shutil
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.rpc.contracts.controller import ProducerIdBlock
from libs.runtime.producer_ids import ProducerIds
from libs.runtime.unused_producer_ids import UnusedProducerIds
from services.gateway.exchange.request_context import ControllerUnavailable
from tests.support.polling import until


class Controller:
    """It hands out blocks of three."""

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


class Lives:
    """Incarnations of one gateway, over one controller. Each is killed, and closes nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller = Controller()
        self.given: list[int] = []
        self._all: list[ProducerIds] = []

    def start(self, page_cache: str = "boot", directory: Path | None = None) -> ProducerIds:
        spare = UnusedProducerIds(OsFileSystem(), str(directory or self.directory), page_cache)
        self._all.append(ProducerIds(self.controller.allocate, spare))
        return self._all[-1]

    async def give(self, ids: ProducerIds, count: int) -> None:
        self.given += [await ids.next() for _ in range(count)]
        assert len(set(self.given)) == len(self.given)

    async def until_none_is_left(self, ids: ProducerIds) -> None:
        async def give_on() -> None:
            while True:
                await self.give(ids, 1)

        with pytest.raises(ControllerUnavailable):
            await give_on()

    def close(self) -> None:
        for ids in self._all:
            ids.close()


async def test_a_block_that_was_not_begun_outlives_the_process_and_no_id_is_given_twice(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    for given in (0, 1, 3, 4, 6, 7):
        lives.controller.away = False
        ids = lives.start()
        ids.prefetch()
        await lives.give(ids, given)
        await until(lambda ids=ids: len(ids.blocks) >= 2)
        lives.controller.away = True
        ids.close()
        next_life = lives.start()
        await lives.give(next_life, 3)
        await lives.until_none_is_left(next_life)
        next_life.close()
    lives.close()


async def test_a_block_that_was_begun_is_gone_for_the_next_life(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    await lives.give(lives.start(), 1)
    lives.controller.away = True
    for ids in lives._all:
        ids.close()
    await lives.until_none_is_left(lives.start())
    lives.close()


@pytest.mark.parametrize("other", ["boot", "copy", "damage"])
async def test_a_spare_block_counts_only_under_its_kernel_and_as_the_file_that_was_written(tmp_path: Path, other: str) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    lives = Lives(home)
    ids = lives.start()
    ids.prefetch()
    await until(lambda: lives.controller.blocks == 2 and len(ids.blocks) == 2)
    lives.controller.away = True
    shutil.copytree(home, copy)
    if other == "damage":
        (home / "producer_ids").write_bytes(b'{"first": 3, "count"')
    next_life = lives.start("another" if other == "boot" else "boot", copy if other == "copy" else home)
    await lives.until_none_is_left(next_life)
    assert lives.given == []
    lives.close()


async def test_a_spare_block_that_cannot_be_taken_out_of_its_file_is_not_given_away(tmp_path: Path) -> None:
    class Stuck(OsFileSystem):
        def unlink(self, path: str) -> None:
            raise PermissionError(path)

    controller = Controller()
    ids = ProducerIds(controller.allocate, UnusedProducerIds(Stuck(), str(tmp_path), "boot"))
    assert [await ids.next() for _ in range(4)] == [3, 4, 5, 6]
    ids.close()
