"""The tasks of a Fetch that waits."""

import asyncio
import contextlib

from services.gateway.fetch.pending_fetch import PendingFetch


async def test_a_hang_up_before_the_tasks_first_turn_makes_nothing_that_nobody_awaits() -> None:
    made: list[str] = []

    async def work() -> None:
        raise AssertionError("it was cancelled")

    def make():  # type: ignore[no-untyped-def]
        made.append("a coroutine")
        return work()

    pending = PendingFetch.__new__(PendingFetch)
    pending._run(make)
    assert pending._task is not None
    pending._task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pending._task
    assert not made
