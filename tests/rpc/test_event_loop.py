"""Writes outside of a turn leave before the loop sleeps, and the loop sleeps over no event."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from libs.rpc.transport.event_loop import EARLY_SENDS_MAX, EVENTS_A_TURN, EventLoop, outbox_of


def run(body: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(body())


def test_it_sends_before_it_sleeps() -> None:
    async def body() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            outbox_of(loop).add(lambda: theirs.sendall(b"sent"))
            async with asyncio.timeout(60):
                return await loop.sock_recv(ours, 4)

    assert run(body) == b"sent"


def test_it_does_not_sleep_over_what_sending_has_given_it_to_do() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        outbox, done = outbox_of(loop), asyncio.Event()

        def send() -> None:
            outbox.wakeful = True
            loop.call_soon(done.set)

        outbox.add(send)
        async with asyncio.timeout(60):
            await done.wait()

    run(body)


def test_streams_added_while_sending_send_after_other_events() -> None:
    async def body() -> list[str]:
        loop = asyncio.get_running_loop()
        outbox, order, done = outbox_of(loop), list[str](), asyncio.Event()

        def again() -> None:
            order.append("again")
            outbox.wakeful = True
            done.set()

        def send() -> None:
            order.append("send")
            loop.call_soon(order.append, "others")
            outbox.add(again)

        outbox.add(send)
        async with asyncio.timeout(60):
            await done.wait()
        return order

    assert run(body) == ["send", "others", "again"]


def test_what_services_of_one_process_tell_each_other_is_delivered_before_sends() -> None:
    async def body() -> list[str]:
        outbox, order, done = outbox_of(asyncio.get_running_loop()), list[str](), asyncio.Event()

        def write() -> None:
            order.append("written")
            outbox.wakeful = True
            done.set()

        def answer() -> None:
            order.append("answer")
            outbox.add(write)

        def request() -> None:
            order.append("request")
            outbox.add_delivery(answer)

        outbox.add(lambda: order.append("sent"))
        outbox.add_delivery(request)
        async with asyncio.timeout(60):
            await done.wait()
        return order

    assert run(body) == ["request", "answer", "sent", "written"]


def test_a_failure_to_send_is_reported_and_keeps_no_other_stream_from_sending() -> None:
    contexts: list[dict[str, Any]] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: contexts.append(context))
        outbox, done = outbox_of(loop), asyncio.Event()

        def fail() -> None:
            raise RuntimeError("on purpose")

        outbox.add(fail)
        outbox.add(lambda: loop.call_soon(done.set) and None)
        async with asyncio.timeout(60):
            await done.wait()

    run(body)
    assert [str(context["exception"]) for context in contexts] == ["on purpose"]


@pytest.mark.parametrize("factory", [EventLoop, asyncio.SelectorEventLoop])
def test_any_loop_has_an_outbox(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def body() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        outbox = outbox_of(loop)

        def send() -> None:
            outbox.wakeful = True
            done.set()

        outbox.add(send)
        async with asyncio.timeout(60):
            await done.wait()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(body())


def test_where_many_have_something_to_send_the_first_do_not_wait_for_the_last() -> None:
    async def body() -> list[str]:
        loop = asyncio.get_running_loop()
        outbox, order = outbox_of(loop), list[str]()
        for number in range(EARLY_SENDS_MAX + 2):
            outbox.add(partial(order.append, f"send {number}"), partial(order.append, f"early {number}"))
            if number == EARLY_SENDS_MAX - 2:
                assert order == []
        assert order == [f"early {number}" for number in range(EARLY_SENDS_MAX)]
        await asyncio.sleep(0)
        return order[EARLY_SENDS_MAX:]

    assert run(body) == [f"send {number}" for number in range(EARLY_SENDS_MAX + 2)]


def test_a_turn_brings_a_bounded_number_of_connections_and_all_have_theirs() -> None:
    """They stay readable, as do those of clients that go on sending."""

    async def body() -> list[int]:
        loop = asyncio.get_running_loop()
        count = 2 * EVENTS_A_TURN + 1
        pairs = [socket.socketpair() for _ in range(count)]
        seen, by_turn = set[int](), [0]

        def readable(number: int) -> None:
            seen.add(number)
            by_turn[-1] += 1

        for number, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            loop.add_reader(ours.fileno(), readable, number)
        async with asyncio.timeout(60):
            while len(seen) < count:
                await asyncio.sleep(0)
                by_turn.append(0)
        for ours, theirs in pairs:
            loop.remove_reader(ours.fileno())
            ours.close()
            theirs.close()
        return by_turn

    assert max(turns := run(body)) == EVENTS_A_TURN
    assert sum(turns) <= 4 * EVENTS_A_TURN, "no connection waits for a third look"
