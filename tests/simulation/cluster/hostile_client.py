"""A hostile client: crowds of connections that send half frames, or large ones behind a long poll, or nothing, and are left.

It must harm nobody. The other clients' promises hold meanwhile, and each process stays within its bounds (`resources.py`).
"""

import asyncio
import struct
from collections.abc import Sequence

from libs.rpc.transport.transport import Stream
from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, write_request_header
from libs.wire.primitives import Writer
from tests.gateway.kafka_client import fetch_body
from tests.simulation.cluster.clients import rest
from tests.simulation.cluster.kafka_client import FETCH_VERSION, PRODUCE_VERSION, Partition
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.world import World

HOST = "hostile"
PAUSE_S = 30.0
CROWD = 300
CONNECT_S_MAX = 3.0
STAYS_S_MAX = 4.0
HALF_SHARE, BEHIND_SHARE = 0.15, 0.1
FRAME_BYTES, SENT_BYTES = 200_000, 60_000
"""Of a half frame."""
BEHIND, BEHIND_BYTES = 10, 60_000
"""Requests behind a long poll, and the bytes of each."""
LONG_POLL_MS = 30_000


class _Deaf:
    """A connection's owner that reads nothing."""

    def __init__(self) -> None:
        self.lost = False
        self._space = memoryview(bytearray(4096))

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def descriptors_received(self, fds: list[int] | None) -> None:
        raise AssertionError("no descriptors come by TCP")

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.lost = True


class HostileClient:
    def __init__(self, world: World, addresses: Sequence[tuple[str, int]], partition: Partition) -> None:
        self._addresses, self._partition = list(addresses), partition
        self._random = world.stream(HOST)
        self._transport = SimulatedTransport(world.network, HOST, None)
        self.stopping = False

    async def run(self) -> None:
        """Works until it is stopped, and leaves no connection behind."""
        while not self.stopping:
            await rest(self._random.expovariate(1 / PAUSE_S), lambda: self.stopping)
            host, port = self._random.choice(self._addresses)
            await asyncio.gather(*(self._connection(f"tcp:{host}:{port}") for _ in range(CROWD)))

    async def _connection(self, address: str) -> None:
        draw, stays_s, owner = self._random.random(), STAYS_S_MAX * self._random.random(), _Deaf()
        try:
            stream = await self._transport.connect(address, lambda _stream: owner, CONNECT_S_MAX)
        except OSError:
            return
        if draw < HALF_SHARE:
            self._send(stream, ApiKey.PRODUCE, PRODUCE_VERSION, bytes(FRAME_BYTES), SENT_BYTES)
        elif draw < HALF_SHARE + BEHIND_SHARE:
            topic, index = self._partition
            body = fetch_body(FETCH_VERSION, [(topic, [(index, 0)])], max_wait_ms=LONG_POLL_MS, min_bytes=1 << 30)
            self._send(stream, ApiKey.FETCH, FETCH_VERSION, body, len(body))
            for _ in range(BEHIND):
                self._send(stream, ApiKey.PRODUCE, PRODUCE_VERSION, bytes(BEHIND_BYTES), BEHIND_BYTES)
        await asyncio.sleep(stays_s)
        if not owner.lost:
            stream.abort(ConnectionAbortedError("left"))

    def _send(self, stream: Stream, key: ApiKey, version: int, body: bytes, length: int) -> None:
        """Sends a request's first bytes."""
        writer = Writer()
        write_request_header(writer, RequestHeader(key, version, 1, HOST))
        stream.write(struct.pack(">i", len(writer.buffer) + len(body)), bytes(writer.buffer), body[:length])
