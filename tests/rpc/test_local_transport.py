"""Services of one process: what goes by their link is what a socket would have brought."""

import asyncio
from functools import partial

import pytest

from libs.rpc.messages.envelope import Hello, Kind, local_frame, pack_body, pack_hello
from libs.rpc.messages.errors import DeadlineExceeded, Disconnected
from libs.rpc.server.rpc_server import Call
from libs.rpc.transport.event_loop import EventLoop
from libs.rpc.transport.frame_link import LINKED_BYTES, LinkEnd, linked_ends
from libs.rpc.transport.local_transport import LocalTransport
from libs.rpc.transport.transport import Stream
from tests.rpc.conftest import Network
from tests.rpc.stream_owner import Owner
from tests.support.polling import until


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


async def test_oneways_that_a_server_has_not_taken_are_bounded(network: Network, short_dir: str) -> None:
    """As on a socket. The server stops reading, since a call has all the room that there is."""
    held: list[Call] = []
    noted: list[int] = []
    methods = {"hold": held.append, "note": lambda call: noted.append(call.body[0])}
    _, at = await network.serve(f"unix:{short_dir}/linked", methods, max_outstanding=1 << 20)
    client = await network.client(at, max_outstanding=4 << 20)
    asked = client.call("hold", [], [bytes(1 << 20)], timeout_s=60)
    await until(lambda: len(held) == 1)
    sent = 0
    while client.oneway("note", [sent], [bytes(10_000)]):
        sent += 1
        assert sent <= 1000, "no bound"
        await asyncio.sleep(0)
    assert noted == []
    assert sent * 10_000 <= (4 << 20) + 10_000
    held[0].reply([])
    await asked
    await until(lambda: len(noted) == sent)
    assert client.oneway("note", [sent])
    await until(lambda: len(noted) == sent + 1)
    assert noted == list(range(sent + 1))


async def test_a_call_that_is_told_as_unsent_never_comes(network: Network, short_dir: str) -> None:
    """The server does not read while the first call has all the room, so it does not notice the connection's end."""
    held: list[Call] = []
    noted: list[object] = []
    methods = {"hold": held.append, "note": lambda call: noted.append(call.body)}
    _, at = await network.serve(f"unix:{short_dir}/linked", methods, max_outstanding=1 << 20)
    client = await network.client(at)
    calls = [client.call("hold", [], [bytes(1 << 20)], timeout_s=60)]
    await until(lambda: len(held) == 1)
    calls.append(client.call("note", [1], timeout_s=60))
    await asyncio.sleep(0.01)
    assert client.connection is not None
    client.connection.stream.abort(ConnectionResetError("on purpose"))
    sent = []
    for call in calls:
        with pytest.raises(Disconnected) as lost:
            await call
        sent.append(lost.value.sent)
    assert sent == [True, False]
    held[0].reply([])
    await asyncio.sleep(0.01)
    assert noted == []


async def test_a_call_that_ran_out_of_time_on_the_link_counts_as_sent(network: Network, short_dir: str) -> None:
    """As the bytes on a socket: the server may take it yet, and then looks at its deadline by itself."""
    held: list[Call] = []
    methods = {"hold": held.append, "note": lambda call: call.reply([])}
    _, at = await network.serve(f"unix:{short_dir}/linked", methods, max_outstanding=1 << 20)
    client = await network.client(at)
    first = client.call("hold", [], [bytes(1 << 20)], timeout_s=60)
    await until(lambda: len(held) == 1)
    with pytest.raises(DeadlineExceeded) as late:
        await client.call("note", [1], timeout_s=0.02)
    assert late.value.sent
    held[0].reply([])
    await first


async def test_answers_that_come_together_do_not_take_one_turn(network: Network, short_dir: str) -> None:
    """As on a socket: a turn takes so many bytes."""
    held: list[Call] = []
    _, at = await network.serve(f"unix:{short_dir}/linked", {"hold": held.append})
    client = await network.client(at)
    assert client.connection is not None
    link = client.connection.stream.link
    assert link is not None
    turn, taken = link.on_frames, []
    assert turn is not None

    def measured() -> None:
        before = len(link.frames)
        turn()
        taken.append(before - len(link.frames))

    link.on_frames = measured
    calls = [client.call("hold", [], timeout_s=60) for _ in range(10)]
    await until(lambda: len(held) == len(calls))
    for call in held:
        call.reply([], [bytes(LINKED_BYTES // 4)])
    await asyncio.gather(*calls)
    assert taken == [4, 4, 2]


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


async def test_frames_that_overtake_the_hello_wait_and_take_no_turns(network: Network, short_dir: str) -> None:
    """The hello goes by the socket. Only its own turn can end the wait."""
    turns: list[None] = []
    seen: list[object] = []
    methods = {"see": lambda call: seen.append(call.body)}
    _, at = await network.serve(f"unix:{short_dir}/linked", methods, on_turn_start=lambda: turns.append(None))
    stream = await network.transport_of(at).connect(at, Owner, 5)
    assert stream.link is not None
    stream.link.send(local_frame(Kind.ONEWAY, 0, "see", 60_000, None, pack_body([1]), ()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(turns), seen) == (0, [])
    stream.write(pack_hello(Hello("gateway", -1, 1, "test", 1)))
    await until(lambda: seen == [[1]])
    stream.abort(ConnectionResetError("the test is over"))
    await asyncio.sleep(0.01)


async def test_frames_for_an_end_that_is_over_are_dropped() -> None:
    one, other = linked_ends(pytest.fail, pytest.fail)
    other.on_frames = lambda: pytest.fail("nobody takes them")
    other.end()
    number = one.send(("frame", 5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not other.frames
    assert one.untaken_bytes == 0
    assert one.may_have_taken(number)
    one.withdraw()
    assert not one.may_have_taken(number)


def test_two_services_that_answer_each_other_for_ever_hold_up_nobody() -> None:
    async def body() -> int:
        one, other = linked_ends(pytest.fail, pytest.fail)
        exchanged = 0

        def bounce(end: LinkEnd) -> None:
            nonlocal exchanged
            exchanged += 1
            end.send(end.take())

        one.on_frames, other.on_frames = partial(bounce, one), partial(bounce, other)
        one.send(("ball", 4))
        async with asyncio.timeout(60):
            await asyncio.sleep(0.01)  # a timer, which is due only between iterations
        one.end()
        other.end()
        return exchanged

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(body()) > 2
