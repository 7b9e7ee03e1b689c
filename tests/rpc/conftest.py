"""Servers and clients on real sockets. Each fixture closes what it made, and checks that nothing leaked."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from libs.roles import ROLES
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.callers import Callers
from libs.rpc.messages.envelope import Hello, Introduction
from libs.rpc.server.rpc_server import Accept, RpcServer
from libs.rpc.transport.local_transport import LocalTransport
from libs.rpc.transport.socket_transport import SocketTransport
from libs.rpc.transport.transport import Stream
from tests.rpc.stream_owner import Owner, Pair
from tests.rpc.tls_pair import tls_pair
from tests.support.certificates import Authority
from tests.support.polling import until


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


@pytest.fixture(params=["unix", "tcp", "linked"])
def address(request: pytest.FixtureRequest, short_dir: str) -> str:
    """`linked`: server and client share a transport that knows that they share a process."""
    return "tcp:127.0.0.1:0" if request.param == "tcp" else f"unix:{short_dir}/{request.param}"


def is_linked(address: str) -> bool:
    return address.endswith("/linked")


class Network:
    """A maker of servers and clients, which it closes at the end."""

    def __init__(self) -> None:
        self.sockets, self._linked = SocketTransport(), LocalTransport()
        self._closers: list[Callable[[], Awaitable[None]]] = []

    def transport_of(self, address: str) -> SocketTransport:
        return self._linked if is_linked(address) else self.sockets

    async def serve(self, address: str, methods: Mapping[str, Accept], **options: Any) -> tuple[RpcServer, str]:
        """`callers` says who may call what: by default anybody anything."""
        hello = options.pop("hello", Hello("storage", 1, 1, "test", 1))
        options.setdefault("callers", dict.fromkeys(methods, Callers(ROLES, True, True)))
        server = RpcServer(hello, methods, transport=self.transport_of(address), **options)
        self._closers.append(lambda: server.close(0.1))
        return server, await server.listen(address)

    async def client(self, address: str, *, hello: Introduction | None = None, ready: bool = True, **options: Any) -> RpcClient:
        client = RpcClient(address, hello or Hello("gateway", -1, 1, "test", 1), self.transport_of(address), **options)
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


@pytest.fixture(params=["unix", "tcp", "tls"])
def pair_address(request: pytest.FixtureRequest, short_dir: str) -> str:
    return {"unix": f"unix:{short_dir}/s", "tcp": "tcp:127.0.0.1:0", "tls": "tls"}[request.param]


@pytest.fixture
async def pair(pair_address: str, authority: Authority, keystore: Path) -> AsyncIterator[Pair]:
    """The two ends of a connection. With TLS, it is agreed on."""
    if pair_address == "tls":
        async with tls_pair(authority, keystore) as made:
            yield made
        return
    transport = SocketTransport()
    accepted: list[Owner] = []
    connected: list[Owner] = []

    def accept(stream: Stream) -> Owner:
        accepted.append(Owner(stream))
        return accepted[0]

    def connect(stream: Stream) -> Owner:
        connected.append(Owner(stream))
        return connected[0]

    listener = await transport.listen(pair_address, accept)
    await transport.connect(listener.address, connect, 5)
    await until(lambda: bool(accepted))
    yield connected[0], accepted[0]
    listener.close()
    for owner in (connected[0], accepted[0]):
        owner.stream.abort(ConnectionResetError("the test is over"))
        await until(lambda: len(owner.lost) == 1)  # noqa: B023
        for fd in owner.fds:
            os.close(fd)
