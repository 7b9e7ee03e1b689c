import asyncio
import os
import threading
from functools import partial

import pytest

from services.storage.threads.one_thread import OneThread, threads


async def test_work_is_done_in_order_and_off_the_loop() -> None:
    thread, done = OneThread("t"), []

    def work(number: int) -> str:
        done.append(number)
        return threading.current_thread().name

    assert await asyncio.gather(*[thread.submit(partial(work, number)) for number in range(100)]) == ["t"] * 100
    assert done == list(range(100))
    thread.close()


async def test_an_exception_reaches_its_submitter_and_the_next_work_is_done() -> None:
    def fail() -> None:
        raise OSError(5, "broken")

    thread = OneThread("t")
    failed, fine = thread.submit(fail), thread.submit(lambda: 1)
    with pytest.raises(OSError, match="broken"):
        await failed
    assert await fine == 1
    thread.close()


async def test_callbacks_are_called_before_futures_are_done() -> None:
    """The end of a sync round, in the iteration in which the loop wakes up."""
    thread, both_are_done = OneThread("t"), threading.Event()
    heard: list[int] = []
    both_heard = asyncio.Event()
    thread.submit(lambda: 1).add_done_callback(lambda done: (heard.append(done.result()), both_heard.set()))
    thread.run(lambda: 2, lambda done: heard.append(done.result()))
    thread.run(both_are_done.set, lambda done: None)
    both_are_done.wait(60)  # the loop has looked for nothing yet
    await both_heard.wait()
    assert heard == [2, 1]
    thread.close()


async def test_a_callback_that_fails_keeps_no_other_from_being_called() -> None:
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context["exception"])))
    thread, called = OneThread("t"), asyncio.Event()

    def fail(done: asyncio.Future[None]) -> None:
        raise RuntimeError("mine")

    thread.run(lambda: None, fail)
    thread.run(lambda: None, lambda done: called.set())
    await asyncio.wait_for(called.wait(), 10)
    assert failures == ["mine"]
    thread.close()


async def test_a_callback_hears_of_an_exception_and_of_dropped_work() -> None:
    begun, may_end, heard = threading.Event(), threading.Event(), asyncio.Queue[str]()

    def fail() -> None:
        begun.set()
        may_end.wait(60)
        raise OSError(5, "broken")

    thread = OneThread("t")
    thread.run(fail, lambda done: heard.put_nowait(str(done.exception())))
    thread.run(lambda: None, lambda done: heard.put_nowait(f"cancelled: {done.cancelled()}"))
    await asyncio.to_thread(begun.wait, 10)
    thread.close()
    may_end.set()
    assert {await heard.get(), await heard.get()} == {"[Errno 5] broken", "cancelled: True"}


async def test_close_drops_work_that_has_not_begun_and_reports_the_running_one() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        may_end.wait(60)
        return "ended"

    thread = OneThread("t")
    running, waiting = thread.submit(work), thread.submit(lambda: "never")
    await asyncio.to_thread(begun.wait, 10)
    thread.close()
    assert waiting.cancelled()
    may_end.set()
    assert await running == "ended"
    with pytest.raises(RuntimeError):
        thread.submit(lambda: None)


async def test_cancelled_work_is_not_begun() -> None:
    may_end, done = threading.Event(), []
    thread = OneThread("t")
    first = thread.submit(lambda: may_end.wait(60))
    second = thread.submit(lambda: done.append(2))
    third = thread.submit(lambda: done.append(3))
    second.cancel()
    may_end.set()
    await asyncio.gather(first, third)
    assert done == [3]
    thread.close()


def eventfds() -> list[str]:
    """The eventfds of this process. Leftovers of earlier tests and of children are of other kinds."""
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}") and _is_eventfd(fd)]


def _is_eventfd(fd: str) -> bool:
    try:
        return "[eventfd]" in os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return False


async def test_a_closed_thread_ends_and_leaves_no_descriptor() -> None:
    before = set(eventfds())
    thread = OneThread("that ends")
    await thread.submit(lambda: None)
    [running] = [thread for thread in threading.enumerate() if thread.name == "that ends"]
    thread.close()
    await asyncio.to_thread(running.join, 10)
    assert not running.is_alive()
    assert set(eventfds()) <= before
    OneThread("never used").close()


async def test_several_threads_are_a_pool() -> None:
    together = threading.Barrier(2)
    pool = threads("pool", 2)
    await asyncio.gather(pool.submit(lambda: together.wait(60)), pool.submit(lambda: together.wait(60)))
    pool.close()
