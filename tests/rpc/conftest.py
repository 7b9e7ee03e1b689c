"""Servers and clients on real sockets. Each fixture closes what it made, and checks that nothing leaked."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest

from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.messages.envelope import Hello, Introduction
from libs.rpc.server.rpc_server import Accept, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport


@pytest.fixture
def short_dir() -> Iterator[str]:
    """A directory with a short path. Socket paths must fit into 108 bytes, which pytest's own directories may not."""
    path = tempfile.mkdtemp(prefix="ps-")
    yield path
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd"))
    yield
    new = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd") if fd not in before]
    leaked = [os.readlink(fd) for fd in new if os.path.lexists(fd) and "event" not in os.readlink(fd)]
    assert not leaked, f"descriptors leaked: {leaked}"


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, short_dir: str) -> str:
    return f"unix:{short_dir}/s" if request.param == "unix" else "tcp:127.0.0.1:0"


class Network:
    """A maker of servers and clients, which it closes at the end."""

    def __init__(self) -> None:
        self.transport = SocketTransport()
        self._closers: list[Callable[[], Awaitable[None]]] = []

    async def serve(self, address: str, methods: Mapping[str, Accept], **options: Any) -> tuple[RpcServer, str]:
        hello = options.pop("hello", Hello("storage", 1, 1, "test", 1))
        server = RpcServer(hello, methods, transport=self.transport, **options)
        self._closers.append(lambda: server.close(0.1))
        return server, await server.listen(address)

    async def client(self, address: str, *, hello: Introduction | None = None, ready: bool = True, **options: Any) -> RpcClient:
        client = RpcClient(address, hello or Hello("gateway", -1, 1, "test", 1), self.transport, **options)
        self._closers.append(client.close)
        if ready:
            await client.ready(5)
        return client

    async def close(self) -> None:
        for close in reversed(self._closers):
            await close()
        await asyncio.sleep(0)


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    network = Network()
    yield network
    await network.close()
