"""Silence on a connection: a server that does not answer is noticed, and one that is only slow is left alone."""

from collections.abc import Sequence

import pytest

from libs.rpc.client import client_connection
from libs.rpc.client.silence import PING, Finding, Silence, looks_in
from libs.rpc.messages.envelope import Hello, Kind, pack_body, pack_frame, pack_hello, unpack_frame
from libs.rpc.messages.errors import Disconnected
from libs.rpc.server import server_connection
from libs.rpc.server.rpc_server import Call
from libs.rpc.transport.transport import SILENCE_S, Stream
from libs.wire.frames import FrameReader
from tests.rpc.conftest import Network
from tests.support.polling import until

LOOK_S = 0.03
SILENT_LOOKS = looks_in(SILENCE_S)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "LOOK_S", LOOK_S)


class UnheardServer:
    """A server that says hello. While it is `cut`, nothing else that it sends arrives."""

    def __init__(self) -> None:
        self.cut = False
        self.requests: list[str] = []

    def connected(self, stream: Stream) -> "UnheardConnection":
        return UnheardConnection(self, stream)


class UnheardConnection:
    def __init__(self, server: UnheardServer, stream: Stream) -> None:
        self._server, self._stream, self._reader = server, stream, FrameReader(1 << 20)

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.advance(nbytes)
        for frame in map(unpack_frame, self._reader.frames()):
            if frame.kind == Kind.HELLO:
                self._stream.write(pack_hello(Hello("storage", 1, 1, "test", 1), 1))
                continue
            self._server.requests.append(frame.method)
            if not self._server.cut:
                self._stream.write(pack_frame(Kind.RESPONSE, frame.request_id, "", 0, None, pack_body(["heard"])))

    def descriptors_received(self, fds: Sequence[int] | None) -> None:
        assert not fds

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        pass


async def silence_is_over(network: Network) -> None:
    """Waits for as long as it takes to notice silence: somebody else notices it."""
    server = UnheardServer()
    server.cut = True
    listener = await network.sockets.listen("tcp:127.0.0.1:0", server.connected)
    other = await network.client(listener.address)
    with pytest.raises(Disconnected):
        await other.call("any", [], timeout_s=60)
    await other.close()
    listener.close()


def test_a_ping_follows_one_quiet_look_and_the_end_follows_several() -> None:
    silence = Silence(SILENT_LOOKS)
    silence.begin()
    found = [silence.look(10, 0) for _ in range(SILENT_LOOKS)]
    assert found == [Finding.PING, *[Finding.QUIET] * (SILENT_LOOKS - 2), Finding.SILENT]


def test_a_longer_silence_takes_more_looks() -> None:
    silence = Silence(looks_in(30.0))
    silence.begin()
    looks = [silence.look(10, 0) for _ in range(75)]
    assert looks.index(Finding.SILENT) == 74


def test_anything_received_begins_the_count_anew() -> None:
    silence = Silence(SILENT_LOOKS)
    silence.begin()
    assert silence.look(10, 0) is Finding.PING
    silence.heard = True
    assert [silence.look(10, 0), silence.look(10, 0)] == [Finding.HEARD, Finding.PING]


def test_a_backlog_that_the_server_takes_counts_as_a_sign_and_one_that_stands_still_does_not() -> None:
    silence = Silence(SILENT_LOOKS)
    silence.begin()
    silence.look(1_000, 9_000)
    assert silence.look(2_000, 8_000) is Finding.HEARD
    assert [silence.look(2_000, 8_000) for _ in range(SILENT_LOOKS)][-1] is Finding.SILENT
    # What the kernel takes without a backlog may lie there: the peer need not have received any of it.
    silence.begin()
    assert [silence.look(sent, 0) for sent in range(SILENT_LOOKS)][-1] is Finding.SILENT


async def test_calls_at_a_server_that_falls_silent_fail_as_lost_and_it_is_tried_again(network: Network, address: str) -> None:
    server = UnheardServer()
    listener = await network.transport_of(address).listen(address, server.connected)
    client = await network.client(listener.address)
    server.cut = True
    with pytest.raises(Disconnected) as raised:
        await client.call("any", [], timeout_s=60)
    assert raised.value.sent
    assert "silent" in str(raised.value)
    assert client.unreachable
    assert server.requests == ["any", PING]
    await until(lambda: client.connected)  # without any call
    assert not client.unreachable
    server.cut = False
    assert (await client.call("any", [], timeout_s=60)).body == ["heard"]
    listener.close()


async def test_a_server_that_refuses_is_not_unreachable_but_gone(network: Network, address: str) -> None:
    server = UnheardServer()
    listener = await network.transport_of(address).listen(address, server.connected)
    client = await network.client(listener.address)
    server.cut = True
    listener.close()
    with pytest.raises(Disconnected):
        await client.call("any", [], timeout_s=60)
    assert client.unreachable
    await until(lambda: not client.unreachable)
    assert not client.connected


async def test_a_call_may_wait_for_as_long_as_the_server_answers_pings(network: Network, address: str) -> None:
    waiting: list[Call] = []
    pings: list[Call] = []

    def ping(call: Call) -> None:
        pings.append(call)
        call.reply([])

    _, at = await network.serve(address, {"wait": waiting.append, PING: ping})
    client = await network.client(at)
    call = client.call("wait", [], timeout_s=60)
    await until(lambda: len(pings) > 2 * SILENT_LOOKS)
    waiting[0].reply(["late"])
    assert (await call).body == ["late"]
    assert client.outstanding == 0


async def test_a_server_without_such_a_method_answers_too(network: Network, address: str) -> None:
    waiting: list[Call] = []
    _, at = await network.serve(address, {"wait": waiting.append})
    client = await network.client(at)
    call = client.call("wait", [], timeout_s=60)
    await silence_is_over(network)
    await silence_is_over(network)
    waiting[0].reply(["late"])
    assert (await call).body == ["late"]


async def test_a_connection_without_calls_is_left_alone(network: Network, address: str) -> None:
    server = UnheardServer()
    listener = await network.transport_of(address).listen(address, server.connected)
    client = await network.client(listener.address)
    await client.call("any", [], timeout_s=60)
    server.cut = True
    await silence_is_over(network)
    assert client.connected
    assert server.requests == ["any"]
    listener.close()


async def test_a_client_that_rests_looks_at_nothing_until_its_next_call(
    network: Network, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class CountedSilence(Silence):
        def look(self, bytes_sent: int, pending_bytes: int) -> Finding:
            nonlocal looks
            looks += 1
            return super().look(bytes_sent, pending_bytes)

    server = UnheardServer()
    listener = await network.transport_of(address).listen(address, server.connected)
    monkeypatch.setattr(client_connection, "Silence", CountedSilence)
    client = await network.client(listener.address)
    await client.call("any", [], timeout_s=60)
    client.rest()
    assert client.connection is not None
    assert not client.connection.watched
    server.cut = True
    call = client.call("any", [], timeout_s=60)
    client.rest()
    assert client.connection.watched, "a call is under way"
    with pytest.raises(Disconnected):
        await call
    assert looks == SILENT_LOOKS
    listener.close()


async def test_a_server_that_reads_no_more_for_now_gives_signs_of_life(
    network: Network, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "PAUSED_SIGN_S", LOOK_S)
    waiting: list[Call] = []
    _, at = await network.serve(address, {"wait": waiting.append}, max_outstanding=1 << 20)
    client = await network.client(at)
    calls = [client.call("wait", [number], [bytes(100_000)], timeout_s=60) for number in range(60)]
    await until(lambda: len(waiting) >= 10)
    await silence_is_over(network)
    await silence_is_over(network)
    assert client.connected
    assert len(waiting) < 60
    waiting[0].reply([])
    assert (await calls[0]).body == []
