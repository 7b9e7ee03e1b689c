"""What a process has when it is started is no work for the garbage collector."""

import gc
from collections.abc import Iterator
from typing import cast

import pytest

from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import start_and_freeze


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


async def test_the_collector_looks_at_what_came_after_the_start() -> None:
    kept: list[list[object]] = []

    async def start(lifecycle: Lifecycle) -> None:
        kept.append([kept])
        assert any(each is kept[0] for each in gc.get_objects())

    await start_and_freeze(start, cast(Lifecycle, None))
    kept.append([kept])
    found = [each is kept[0] for each in gc.get_objects() if each is kept[0] or each is kept[1]]
    assert found == [False]
