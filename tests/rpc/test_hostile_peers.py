"""Raw sockets that do not keep to the protocol: each loses its own connection, and nobody else notices."""

import asyncio
import contextlib
import itertools
import os
import random
import socket
from collections.abc import AsyncIterator

import pytest

from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.messages.envelope import Hello, Kind, pack_body, pack_frame, pack_hello, unpack_frame
from libs.rpc.messages.errors import DeadlineExceeded, Disconnected, RpcError
from libs.rpc.server import server_connection
from libs.rpc.server.rpc_server import Call, RpcServer
from libs.wire.frames import FrameReader
from tests.rpc.conftest import Network
from tests.support.polling import until

ME = Hello("gateway", 5, 100, "test", 1, "c")
HELLO = pack_hello(ME)


class Raw:
    """A connection that can send anything."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.reader = FrameReader(1 << 20)
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.socket, data)

    async def receive(self) -> list[tuple[int, int, list[object]]]:
        """The (kind, request id, body) of the next frame; [] at the end of the connection."""
        while True:
            data = await asyncio.wait_for(self.loop.sock_recv(self.socket, 65_536), 60)
            if not data:
                return []
            self.reader.buffer()[: len(data)] = data
            self.reader.advance(len(data))
            frames = [unpack_frame(frame) for frame in self.reader.frames()]
            if frames:
                return [(frame.kind, frame.request_id, frame.body) for frame in frames]

    async def closed(self) -> bool:
        try:
            while await asyncio.wait_for(self.loop.sock_recv(self.socket, 65_536), 60):
                pass
        except ConnectionError:
            pass
        return True


class Scene:
    """One server, a well-behaved client, and any number of others."""

    def __init__(self, server: RpcServer, path: str, client: RpcClient) -> None:
        self.server = server
        self.path = path
        self.client = client
        self.calls: list[Call] = []
        self.raws: list[Raw] = []

    async def raw(self, *, hello: bytes = HELLO) -> Raw:
        connected = socket.socket(socket.AF_UNIX)
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, self.path)
        raw = Raw(connected)
        self.raws.append(raw)
        await raw.send(hello)
        assert (await raw.receive())[0][0] == Kind.HELLO
        return raw


@pytest.fixture
async def scene(network: Network, short_dir: str) -> AsyncIterator[Scene]:
    held: list[Call] = []

    def echo(call: Call) -> None:
        call.reply(call.body, [bytes(call.payload)])

    path = f"{short_dir}/s"
    server, at = await network.serve(
        f"unix:{path}",
        {"echo": echo, "hold": held.append},
        hello=Hello("storage", 1, 1, "test", 1, "c"),
        max_frame=1 << 20,
        max_outstanding=1 << 20,
    )
    client = await network.client(at)
    scene = Scene(server, path, client)
    scene.calls = held
    yield scene
    assert (await client.call("echo", ["still here"], timeout_s=60)).body == ["still here"]
    for raw in scene.raws:
        raw.socket.close()


def request(
    request_id: int, method: str = "echo", body: object = (), left_ms: int = 5000, kind: int = Kind.REQUEST, sent_at_ms: int = 0
) -> bytes:
    return pack_frame(kind, request_id, method, left_ms, None, pack_body(body), 0, 0, sent_at_ms)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x02\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO,
        request(1, kind=9),
        request(1, kind=Kind.RESPONSE),
        request(1, kind=Kind.ERROR),
        request(1, "hold") + request(1, "hold"),
        request(1, body=[[1]])[:-1] + b"\xc1",
    ],
    ids=lambda data: data[:12].hex(),
)
async def test_a_frame_that_should_not_be_closes_its_connection(scene: Scene, data: bytes) -> None:
    raw = await scene.raw()
    await raw.send(data)
    assert await raw.closed()
    assert scene.server.refused == 1


@pytest.mark.parametrize(
    "first",
    [request(1), request(1, kind=Kind.CANCEL), b"\0\0\0\x05\0\x01\x90\0\0", os.urandom(64)],
    ids=["request", "cancel", "empty header", "random bytes"],
)
async def test_nothing_but_a_hello_may_come_first(scene: Scene, first: bytes) -> None:
    raw = await scene.raw(hello=first)
    assert await raw.closed()


async def test_random_bytes_close_their_connection_and_crash_nothing(scene: Scene) -> None:
    chance = random.Random(7)
    for _ in range(150):
        raw = await scene.raw()
        good = bytearray(request(3, body=[1, [b"x" * 20]]) + request(4, "nothing") + request(0, kind=Kind.ONEWAY))
        for _ in range(chance.randint(1, 6)):
            good[chance.randrange(len(good))] = chance.randrange(256)
        await raw.send(bytes(good) if chance.random() < 0.8 else chance.randbytes(chance.randrange(1, 300)))
        raw.socket.close()
        scene.raws.remove(raw)
    await until(lambda: scene.server.connections == 1)


async def test_good_frames_before_a_bad_one_were_accepted(scene: Scene) -> None:
    raw = await scene.raw()
    await raw.send(request(1, "hold") + request(2, "hold") + b"\xff\xff\xff\xff" + request(3, "hold"))
    assert await raw.closed()
    assert [call.request_id for call in scene.calls] == [1, 2]


async def test_frames_that_arrive_a_byte_at_a_time_are_answered(scene: Scene) -> None:
    raw = await scene.raw()
    for byte in request(1, body=["slow"]):
        await raw.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await raw.receive() == [(Kind.RESPONSE, 1, ["slow"])]


async def test_a_cancel_of_what_is_not_there_is_ignored(scene: Scene) -> None:
    raw = await scene.raw()
    await raw.send(request(77, kind=Kind.CANCEL) + request(1, body=[1]))
    assert await raw.receive() == [(Kind.RESPONSE, 1, [1])]


async def test_a_frame_past_its_deadline_is_refused(scene: Scene) -> None:
    raw = await scene.raw()
    await raw.send(request(1, left_ms=0) + request(2, left_ms=-5) + request(3, "hold", kind=Kind.ONEWAY, left_ms=0))
    answers = await raw.receive()
    assert [(kind, body[0]) for kind, _, body in answers] == [(Kind.ERROR, 7), (Kind.ERROR, 7)]
    assert scene.calls == []
    assert scene.server.late_frames == 3


@pytest.mark.parametrize(("method", "left_ms"), [("echo", 0), ("unknown", 60_000)], ids=["late", "unknown"])
async def test_a_peer_that_reads_no_refusals_is_not_read(scene: Scene, method: str, left_ms: int) -> None:
    """Each costs the server's memory more than the frame that asked for it, until the peer reads."""
    scene.server.max_outstanding = 64 << 20  # as it is unless a test sets less
    raw = await scene.raw()
    (connection,) = [each for each in scene.server.open_connections if each.peer is not None and each.peer.node_id == ME.node_id]

    async def flood() -> None:
        for first in itertools.count(1, 1000):
            await raw.send(b"".join(request(first + number, method, left_ms=left_ms) for number in range(1000)))

    flooding = asyncio.create_task(flood())
    await until(lambda: not connection.is_read or connection.unread_bytes > 4 << 20)
    assert connection.unread_bytes < 2 << 20
    flooding.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await flooding
    while not connection.is_read:
        assert await asyncio.wait_for(raw.loop.sock_recv(raw.socket, 65_536), 60)


async def test_a_frame_that_waited_longer_than_it_had_is_refused(scene: Scene) -> None:
    raw = await scene.raw(hello=pack_hello(ME, 1_000_000))
    now_ms = 1_000_000
    # By the sender's own clock, the request left five seconds before the hello, with a deadline of two seconds.
    await raw.send(request(1, left_ms=2000, sent_at_ms=now_ms - 5000) + request(2, left_ms=2000, sent_at_ms=now_ms))
    answers = await raw.receive()
    assert [(kind, request_id) for kind, request_id, _ in answers] == [(Kind.ERROR, 1), (Kind.RESPONSE, 2)]


async def test_a_newer_connection_of_the_same_peer_ends_the_older_one(scene: Scene) -> None:
    older = await scene.raw()
    await older.send(request(1, "hold"))
    await until(lambda: len(scene.calls) == 1)
    newer = await scene.raw()
    await newer.send(request(1, body=["newer"]))
    assert await newer.receive() == [(Kind.RESPONSE, 1, ["newer"])]
    assert await older.closed()
    assert scene.calls[0].cancelled


async def test_frames_that_were_in_flight_on_the_older_connection_have_no_effect(scene: Scene) -> None:
    older = await scene.raw()
    accepted = scene.server.connections
    connected = socket.socket(socket.AF_UNIX)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, scene.path)
    newer = Raw(connected)
    scene.raws.append(newer)
    await until(lambda: scene.server.connections == accepted + 1)
    # Both are readable in the same turn of the loop: the newer hello first, whatever order the kernel reports.
    (first, second) = sorted((c for c in scene.server.open_connections), key=lambda c: c.number)[-2:]
    older.socket.send(request(1, "hold"))
    newer.socket.send(HELLO)
    second._stream._readable()  # type: ignore[attr-defined]
    assert await older.closed()
    assert scene.calls == []
    assert first.peer is not None


async def test_an_older_incarnation_cannot_come_back(scene: Scene) -> None:
    current = await scene.raw(hello=pack_hello(Hello("gateway", 5, 101, "test", 1, "c")))
    late = await scene.raw(hello=pack_hello(Hello("gateway", 5, 100, "test", 1, "c")))
    assert await late.closed()
    await current.send(request(1, body=[1]))
    assert await current.receive() == [(Kind.RESPONSE, 1, [1])]


async def test_an_incarnation_that_went_back_is_refused_only_while_its_former_self_is_connected(scene: Scene) -> None:
    """Its data directory was emptied, and its clock is behind. It comes again until the former connection has ended."""
    former = await scene.raw(hello=pack_hello(Hello("storage", 5, 101, "test", 1, "c")))
    assert await (await scene.raw(hello=pack_hello(Hello("storage", 5, 100, "test", 1, "c")))).closed()
    left = scene.server.connections - 1
    former.socket.close()
    await until(lambda: scene.server.connections == left)
    late = await scene.raw(hello=pack_hello(Hello("storage", 5, 100, "test", 1, "c")))
    await late.send(request(1, body=[1]))
    assert await late.receive() == [(Kind.RESPONSE, 1, [1])]


async def test_a_peer_of_another_cluster_is_refused(scene: Scene) -> None:
    raw = await scene.raw(hello=pack_hello(Hello("gateway", 6, 1, "test", 1, "another")))
    assert await raw.closed()


async def test_a_process_that_knows_its_cluster_refuses_members_of_another(network: Network, address: str) -> None:
    known = [""]
    _, at = await network.serve(address, {}, hello=lambda: Hello("storage", 1, 1, "test", 1, known[0]))
    first = await network.client(at, hello=Hello("gateway", 1, 1, "test", 1, "another"))
    await first.close()
    known[0] = "ours"
    late = await network.client(at, hello=Hello("gateway", 1, 1, "test", 1, "another"), ready=False)
    with pytest.raises(DeadlineExceeded):
        await late.ready(0.2)
    assert late.peer is None
    second = await network.client(at, hello=lambda: Hello("gateway", 2, 1, "test", 1, known[0]))
    assert second.peer is not None
    assert second.peer.cluster_id == "ours"


async def test_peers_that_name_no_node_do_not_end_each_other(scene: Scene) -> None:
    callers = [await scene.raw(hello=pack_hello(Hello("gateway", -1, 0, "test", 1))) for _ in range(3)]
    for caller in callers:
        await caller.send(request(1, body=[1]))
        assert await caller.receive() == [(Kind.RESPONSE, 1, [1])]


async def test_a_peer_that_reads_no_answers_is_read_no_more(scene: Scene) -> None:
    raw = await scene.raw()
    big = pack_frame(Kind.REQUEST, 1, "echo", 5000, None, b"\x90", 100_000)
    sent = 0
    try:
        async with asyncio.timeout(0.5):
            for number in range(1, 1000):
                await raw.send(pack_frame(Kind.REQUEST, number, "echo", 5000, None, b"\x90", 100_000) + bytes(100_000))
                sent += 1
    except TimeoutError:
        pass
    assert len(big) < 100
    assert sent < 100
    assert (await scene.client.call("echo", [], timeout_s=60)).body == []


@pytest.mark.parametrize("data", [b"", HELLO[:7], HELLO + b"\0\0\0\x50half"], ids=["silent", "half a hello", "half a frame"])
async def test_silence_in_the_middle_of_something_is_ended(scene: Scene, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(server_connection, "HELLO_TIMEOUT_S", 0.05)
    monkeypatch.setattr(server_connection, "STALL_TIMEOUT_S", 0.05)
    raw = await scene.raw(hello=data)
    quiet = await scene.raw(hello=pack_hello(Hello("gateway", -1, 0, "test", 1)))

    async def sweep() -> None:
        while True:
            scene.server._sweep()
            await asyncio.sleep(0.02)

    sweeping = asyncio.create_task(sweep())
    assert await raw.closed()
    await quiet.send(request(1, body=["idle is fine"]))
    assert await quiet.receive() == [(Kind.RESPONSE, 1, ["idle is fine"])]
    sweeping.cancel()
    scene.server._sweeper.cancel()  # type: ignore[union-attr]


# A client must survive a hostile server as well.


async def serve_raw(path: str, answer: bytes) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    listening.setblocking(False)
    loop = asyncio.get_running_loop()

    async def run() -> None:
        while True:
            connected, _ = await loop.sock_accept(listening)
            with connected:
                await loop.sock_recv(connected, 10_000)
                await loop.sock_sendall(connected, answer)
                await loop.sock_recv(connected, 10_000)

    task = loop.create_task(run())
    task.add_done_callback(lambda _: listening.close())
    TASKS.append(task)
    return listening


TASKS: list["asyncio.Task[None]"] = []


@pytest.fixture
async def tasks() -> AsyncIterator[None]:
    yield
    for task in TASKS:
        task.cancel()
    await asyncio.gather(*TASKS, return_exceptions=True)
    TASKS.clear()


SERVER_HELLO = pack_hello(Hello("storage", 1, 1, "test", 1))


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xff\xff\xff",
        request(1),
        SERVER_HELLO + b"\xff\xff\xff\xff",
        SERVER_HELLO + SERVER_HELLO,
        SERVER_HELLO + request(1),
        SERVER_HELLO + pack_frame(Kind.RESPONSE, 1, "", 0, None, b"\x90", 0, 3),
        SERVER_HELLO[:9],
    ],
    ids=lambda answer: answer[:4].hex() + str(len(answer)),
)
async def test_a_hostile_server_costs_its_caller_an_error_and_nothing_else(
    network: Network, short_dir: str, answer: bytes
) -> None:
    await serve_raw(f"{short_dir}/h", answer)
    client = await network.client(f"unix:{short_dir}/h", ready=False, connect_timeout_s=0.2)
    with pytest.raises(Disconnected):
        await client.call("echo", [], timeout_s=60)
    assert client.outstanding == 0


@pytest.mark.usefixtures("tasks")
async def test_answers_that_nobody_asked_for_are_dropped(network: Network, short_dir: str) -> None:
    unasked = pack_frame(Kind.RESPONSE, 99, "", 0, None, b"\x90") + pack_frame(Kind.ERROR, 98, "", 0, None, b"\x90")
    await serve_raw(f"{short_dir}/h", SERVER_HELLO + unasked + pack_frame(Kind.ERROR, 1, "", 0, None, b"\x91\xc0"))
    client = await network.client(f"unix:{short_dir}/h", ready=False)
    with pytest.raises(RpcError) as raised:
        await client.call("echo", [], timeout_s=60)
    assert raised.value.code == -1


async def test_a_server_that_is_not_the_expected_node_is_refused(network: Network, short_dir: str) -> None:
    _, at = await network.serve(f"unix:{short_dir}/s", {})
    client = await network.client(at, ready=False, expected=("storage", 2))
    with pytest.raises(Disconnected, match="storage 1"):
        await client.call("echo", [], timeout_s=60)
    with pytest.raises(DeadlineExceeded):
        await client.ready(0.1)
