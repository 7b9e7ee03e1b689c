"""Simulated connections: bytes in order, on connections that overtake each other, until something breaks."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from random import Random

import pytest

from libs.rpc.transport.transport import Receiver, Stream
from tests.simulation.cluster.loop import LIFE, Life, VirtualLoop
from tests.simulation.cluster.network import Network, SimulatedListener, SimulatedTransport
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes


class End:
    """Collects what comes."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self._space = memoryview(bytearray(50))

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._space[:nbytes]

    def descriptors_received(self, fds: list[int] | None) -> None:
        raise AssertionError

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.lost.append(reason)


class Pair:
    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop(Random(seed))  # type: ignore[abstract]
        self.network = Network(self.loop, Random(seed))
        self.disk = SimulatedDisk(Sometimes())
        self.server_life = Life("server")
        self.servers: list[End] = []
        self.listener: SimulatedListener | None = None

    def run(self, work: Callable[["Pair"], Awaitable[None]]) -> None:
        async def body() -> None:
            context = Context()
            context.run(LIFE.set, self.server_life)
            await self.loop.create_task(self._listen(), context=context)
            await work(self)

        self.loop.run(body())
        with self.loop.discarding():
            self.loop.close()

    async def _listen(self) -> None:
        def accept(stream: Stream) -> Receiver:
            self.servers.append(End(stream))
            return self.servers[-1]

        self.listener = await SimulatedTransport(self.network, "server", self.disk).listen("tcp:server:1", accept)

    async def connect(self, timeout_s: float = 1.0) -> End:
        ends: list[End] = []

        def make(stream: Stream) -> End:
            ends.append(End(stream))
            return ends[0]

        await SimulatedTransport(self.network, "client", None).connect("tcp:server:1", make, timeout_s)
        await asyncio.sleep(0.1)
        return ends[0]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_whole_and_in_order(seed: int) -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        data = Random(seed).randbytes(3000)
        for at in range(0, 3000, 37):
            client.stream.write(data[at : at + 37])
            if at % 5 == 0:
                await asyncio.sleep(0.001)
        await asyncio.sleep(1.0)
        assert pair.servers[0].received == data

    Pair(seed).run(work)


def test_bytes_blocked_one_way_arrive_late_and_the_other_way_goes_on() -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        pair.network.block("client", "server")
        client.stream.write(b"up")
        pair.servers[0].stream.write(b"down")
        await asyncio.sleep(5.0)
        assert (bytes(pair.servers[0].received), bytes(client.received)) == (b"", b"down")
        pair.network.unblock("client", "server")
        client.stream.write(b" again")
        await asyncio.sleep(1.0)
        assert pair.servers[0].received == b"up again"

    Pair().run(work)


def test_a_listener_that_pauses_accepts_streams_later_and_loses_nothing_of_them() -> None:
    async def work(pair: Pair) -> None:
        assert pair.listener is not None
        pair.listener.pause(5.0)
        clients = [await pair.connect() for _ in range(3)]
        for number, client in enumerate(clients):
            client.stream.write(b"%d" % number)
        await asyncio.sleep(3.0)
        assert pair.servers == []
        await asyncio.sleep(3.0)
        assert sorted(bytes(end.received) for end in pair.servers) == [b"0", b"1", b"2"]

    Pair().run(work)


def test_a_killed_process_ends_its_connections_and_refuses_new_ones() -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        pair.loop.end(pair.server_life)
        pair.network.kill(pair.server_life)
        await asyncio.sleep(1.0)
        assert client.lost == [None]
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    Pair().run(work)


def test_a_host_without_power_says_nothing_until_it_is_up_again() -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        pair.loop.end(pair.server_life)
        pair.network.power_cut("server")
        client.stream.write(b"anybody?")
        await asyncio.sleep(60.0)
        assert not client.lost
        with pytest.raises(TimeoutError):
            await pair.connect()
        pair.network.power_on("server")
        await asyncio.sleep(1.0)
        assert isinstance(client.lost[0], ConnectionResetError)

    Pair().run(work)


def test_file_ranges_leave_in_their_place_from_a_simulated_disk() -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        fd = pair.disk.open_append("/file", create=True)
        pair.disk.pwritev(fd, [b"0123456789"], 0)
        stream = pair.servers[0].stream
        (own,) = stream.hold_files([fd])
        pair.disk.close(fd)
        stream.write(b"<")
        stream.write_file(own, 3, 4, lambda _sent: stream.let_go(own))
        stream.write(b">")
        await asyncio.sleep(1.0)
        assert client.received == b"<3456>"

    Pair().run(work)


def test_unread_bytes_stay_with_the_sender() -> None:
    async def work(pair: Pair) -> None:
        client = await pair.connect()
        pair.servers[0].stream.pause_reading()
        for _ in range(20):
            client.stream.write(bytes(100_000))
            await asyncio.sleep(0.01)
        assert client.stream.pending_bytes > 1_000_000
        pair.servers[0].stream.resume_reading()
        await asyncio.sleep(60.0)
        assert client.stream.pending_bytes == 0
        assert len(pair.servers[0].received) == 2_000_000

    Pair().run(work)
