"""Services of one process: what goes by their link is what a socket would have brought."""

import asyncio
from functools import partial

import pytest

from libs.rpc.messages.errors import Disconnected
from libs.rpc.server.rpc_server import Call
from libs.rpc.transport.event_loop import EventLoop
from libs.rpc.transport.frame_link import LinkEnd, linked_ends
from libs.rpc.transport.local_transport import LocalTransport
from libs.rpc.transport.transport import Stream
from tests.rpc.conftest import Network
from tests.rpc.stream_owner import Owner


async def test_neither_end_sees_what_the_other_does_to_its_buffers(network: Network, short_dir: str) -> None:
    kept = bytearray(b"answered")

    def accept(call: Call) -> None:
        call.payload[:4] = b"kept"  # as a log does that gives a batch its offsets
        call.reply([bytes(call.payload)], [kept])

    _, at = await network.serve(f"unix:{short_dir}/linked", {"write": accept})
    client = await network.client(at)
    own = bytearray(b"mine, and mine")
    answer = await client.call("write", [], [memoryview(own)[:4], memoryview(own)[4:]], timeout_s=60)
    assert answer.body == [b"kept, and mine"]
    assert own == b"mine, and mine"
    kept[:] = b"changed."
    assert bytes(answer.payload) == b"answered"


async def test_bodies_arrive_as_the_types_that_msgpack_knows(network: Network, short_dir: str) -> None:
    seen: list[object] = []

    def accept(call: Call) -> None:
        seen.append(call.body)
        call.reply(())

    _, at = await network.serve(f"unix:{short_dir}/linked", {"see": accept})
    client = await network.client(at)
    body = [(1, 2), bytearray(b"bytes"), None, "text", [(True, 1.5)]]
    assert (await client.call("see", body, timeout_s=60)).body == []
    assert seen == [[[1, 2], b"bytes", None, "text", [[True, 1.5]]]]
    assert seen[0] is not body


async def test_a_listener_that_closed_is_connected_to_no_more(short_dir: str) -> None:
    transport = LocalTransport()
    listener = await transport.listen(f"unix:{short_dir}/s", Owner)
    listener.close()
    with pytest.raises(FileNotFoundError):
        await transport.connect(f"unix:{short_dir}/s", Owner, 5)


async def test_who_accepts_bytes_only_gets_bytes(short_dir: str) -> None:
    transport = LocalTransport()
    listener = await transport.listen(f"unix:{short_dir}/s", Owner)
    stream = await transport.connect(listener.address, Owner, 5)
    assert stream.link is None
    listener.close()
    stream.abort(ConnectionResetError("the test is over"))
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("at_fault", ["server", "client"])
async def test_who_cannot_take_a_connection_leaves_no_sockets_behind(short_dir: str, at_fault: str) -> None:
    def fail(stream: Stream) -> Owner:
        raise RuntimeError("on purpose")

    transport = LocalTransport()
    listener = await transport.listen(f"unix:{short_dir}/s", fail if at_fault == "server" else Owner)
    with pytest.raises(RuntimeError, match="on purpose"):
        await transport.connect(listener.address, Owner if at_fault == "server" else fail, 5)
    listener.close()


async def test_a_receiver_that_fails_ends_its_connection(network: Network, short_dir: str) -> None:
    server, at = await network.serve(f"unix:{short_dir}/linked", {"echo": lambda call: call.reply([])})
    client = await network.client(at)

    def fail() -> None:
        raise RuntimeError("on purpose")

    server.on_turn_start = fail
    with pytest.raises(Disconnected, match="closed by the peer"):
        await client.call("echo", [], timeout_s=60)
    server.on_turn_start = None
    await client.ready(5)
    assert (await client.call("echo", [], timeout_s=60)).body == []


async def test_frames_for_an_end_that_is_over_are_dropped() -> None:
    one, other = linked_ends(pytest.fail, pytest.fail)
    other.on_frames = lambda: pytest.fail("nobody takes them")
    other.end()
    number = one.send("frame")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not other.frames
    assert one.has_taken(number)


def test_two_services_that_answer_each_other_for_ever_hold_up_nobody() -> None:
    async def body() -> int:
        one, other = linked_ends(pytest.fail, pytest.fail)
        exchanged = 0

        def bounce(end: LinkEnd) -> None:
            nonlocal exchanged
            exchanged += 1
            end.send(end.frames.popleft())

        one.on_frames, other.on_frames = partial(bounce, one), partial(bounce, other)
        one.send("ball")
        async with asyncio.timeout(60):
            await asyncio.sleep(0.01)  # a timer, which is due only between iterations
        one.end()
        other.end()
        return exchanged

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(body()) > 2
