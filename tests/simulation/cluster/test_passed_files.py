"""Files that pass through a simulated Unix socket: inodes, whatever becomes of their names, unless there is no room for them."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from libs.rpc.transport.transport import Receiver, Stream
from tests.simulation.cluster.loop import VirtualLoop
from tests.simulation.cluster.network import Network, SimulatedTransport
from tests.simulation.disk import FIRST_FD, SimulatedDisk
from tests.simulation.sometimes import Sometimes

SOCKET = "unix:/run/storage.sock"


class Drawn(Random):
    """Always draws the same share."""

    share = 0.99

    def random(self) -> float:
        return self.share

    def randrange(self, *_: object) -> int:  # type: ignore[override]
        return 1


class End:
    """Notes descriptors and bytes as they come."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.came: list[object] = []
        self._space = memoryview(bytearray(4096))

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        self.came.append(bytes(self._space[:nbytes]))

    def descriptors_received(self, fds: list[int] | None) -> None:
        self.came.append(fds)

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.came.append(reason)


class Kernel:
    """A storage node and a gateway on one kernel."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(Random(1))  # type: ignore[abstract]
        self.network = Network(self.loop, Random(1))
        self.network.kernels = {"gateway": "storage"}
        self.drawn = Drawn()
        self.storage_disk, self.gateway_disk = SimulatedDisk(Sometimes()), SimulatedDisk(Sometimes())
        self.gateway = SimulatedTransport(self.network, "gateway", self.gateway_disk, self.drawn)
        self.servers: list[End] = []

    def run(self, work: Callable[["Kernel"], Awaitable[None]]) -> None:
        async def body() -> None:
            await SimulatedTransport(self.network, "storage", self.storage_disk).listen(SOCKET, self._accept)
            await work(self)

        self.loop.run(body())
        with self.loop.discarding():
            self.loop.close()

    def _accept(self, stream: Stream) -> Receiver:
        self.servers.append(End(stream))
        return self.servers[-1]

    async def connect(self) -> tuple[End, End]:
        ends: list[End] = []

        def make(stream: Stream) -> End:
            ends.append(End(stream))
            return ends[0]

        await self.gateway.connect(SOCKET, make, 1.0)
        return ends[0], self.servers[-1]

    def file(self, content: bytes) -> int:
        self.storage_disk.make_directories("/data")
        fd = self.storage_disk.open_append("/data/1.log", create=True)
        self.storage_disk.pwritev(fd, [content], 0)
        return fd


def test_a_passed_file_is_read_after_its_name_and_its_process_are_gone() -> None:
    async def work(kernel: Kernel) -> None:
        here, there = await kernel.connect()
        fd = kernel.file(b"abcdef")
        there.stream.write(b"before")
        there.stream.attach_descriptors([fd])
        there.stream.write(b"with")
        await asyncio.sleep(0.1)
        (passed,) = [one for one in here.came if isinstance(one, list)]
        at = here.came.index(passed)
        before, behind = (b"".join(one for one in part if isinstance(one, bytes)) for part in (here.came[:at], here.came[at:]))
        assert before + behind == b"beforewith"
        assert b"before".startswith(before), "descriptors come no later than the first byte that they were sent with"
        kernel.storage_disk.unlink("/data/1.log")
        kernel.storage_disk.killed()
        files = kernel.gateway.passed_files
        assert files.read_cached(passed[0], 2, 3) == b"cde"
        assert files.read_cached(passed[0], 4, 9) == b"ef"
        assert files.mapped(passed[0], None, 0, 6) == b"abcdef"
        assert files.mapped(passed[0], None, 0, 7) is None
        files.close(passed[0])
        with pytest.raises(KeyError):
            kernel.gateway_disk.size(passed[0])

    Kernel().run(work)


def test_descriptors_without_room_are_missed_and_the_bytes_come() -> None:
    async def work(kernel: Kernel) -> None:
        here, there = await kernel.connect()
        kernel.drawn.share = 0.0
        there.stream.attach_descriptors([kernel.file(b"abcdef")])
        there.stream.write(b"with")
        await asyncio.sleep(0.1)
        assert here.came == [None, b"w", b"ith"]

    Kernel().run(work)


def test_the_rest_of_a_message_may_come_with_the_next_ones_descriptors() -> None:
    async def work(kernel: Kernel) -> None:
        here, there = await kernel.connect()
        kernel.drawn.share = 0.3  # in parts, and there is room
        fd = kernel.file(b"abcdef")
        for text in (b"first", b"second"):
            there.stream.attach_descriptors([fd])
            there.stream.write(text)
        await asyncio.sleep(0.1)
        assert [one if isinstance(one, bytes) else len(one) for one in here.came if isinstance(one, (bytes, list))] == [
            *(1, b"f"),
            *(1, b"i"),
            b"rstsecond",
        ]

    Kernel().run(work)


def test_a_network_that_is_cut_leaves_unix_sockets_alone_and_other_kernels_see_none() -> None:
    async def work(kernel: Kernel) -> None:
        kernel.network.block("storage", "gateway")
        kernel.network.block("gateway", "storage")
        here, there = await kernel.connect()
        there.stream.write(b"heard")
        await asyncio.sleep(0.1)
        assert here.came == [b"heard"]
        assert kernel.gateway.has_socket("/run/storage.sock")
        assert not SimulatedTransport(kernel.network, "elsewhere", None).has_socket("/run/storage.sock")
        with pytest.raises(ConnectionRefusedError):
            await kernel.gateway.connect("unix:/run/nobody.sock", End, 1.0)

    Kernel().run(work)


def test_simulated_descriptors_are_no_real_ones() -> None:
    assert Kernel().file(b"") >= FIRST_FD
