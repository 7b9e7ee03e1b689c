"""The means of the security benchmarks: many clients, a slow loris, the meter of an event loop's turns, the ACLs."""

import asyncio
import mmap
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from libs.rpc.transport import event_loop
from libs.rpc.transport.tls_server import TlsSettings, server_context
from tests.bench.__main__ import FIGURES, is_named
from tests.bench.load import BenchError
from tests.bench.security.authorization import ACLS, acls_of
from tests.bench.security.many_clients import API_VERSIONS, open_clients
from tests.bench.security.slow_loris import HALF_FRAME, SlowLoris, Way
from tests.bench.security.turn_meter import LAYOUT, MeteredSelector, Turns
from tests.support.certificates import Authority, client_context, make_authority
from tests.support.polling import eventually

ANSWER = struct.pack(">i", 30_000) + bytes(30_000)
"""It is longer than a record of TLS."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def serving(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, int]]:
    """A server in a thread of its own."""
    loops, port, over = list[asyncio.AbstractEventLoop](), list[int](), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is done
        finally:
            writer.transport.abort()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        loops.append(asyncio.get_running_loop())
        port.append(server.sockets[0].getsockname()[1])
        await over.wait()
        server.close()
        for _ in range(3):
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
            await asyncio.sleep(0.01)  # transports close in a later turn

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    eventually(lambda: port, 30)
    try:
        yield "127.0.0.1", port[0]
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert await reader.readexactly(len(API_VERSIONS)) == API_VERSIONS
    writer.write(ANSWER)
    await reader.read()


@pytest.mark.parametrize("secured", [False, True])
def test_each_of_many_clients_is_served_once_and_stays(authority: Authority, secured: bool) -> None:
    tls = server_context(TlsSettings(str(authority.sign("server", "/CN=server")))) if secured else None
    with serving(answer, tls) as address:
        clients = open_clients(address, 120, client_context(authority) if secured else None)
        assert len({client.getsockname() for client in clients}) == 120
        for client in clients:
            with client, pytest.raises((BlockingIOError, ssl.SSLWantReadError)):
                client.recv(1)


def test_a_client_that_is_not_served_is_told() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(API_VERSIONS))
        writer.close()

    with serving(hang_up) as address, pytest.raises(BenchError, match="closed a connection"):
        open_clients(address, 1, None)


def test_a_slow_loris_sends_on_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.security.slow_loris.EVERY_S", 0.2)
    received: list[bytes] = []

    async def close_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readexactly(len(HALF_FRAME) + 2))
        writer.close()

    with serving(close_the_first) as address:
        with SlowLoris(address, Way.PLAIN_FRAMES, 3, ssl.create_default_context()) as loris:
            eventually(lambda: len(received) > 3, 60)
        assert loris.ended > 0
    assert set(received) == {HALF_FRAME + b"\0\0"}


def test_the_longest_turn_of_a_loop_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(tmp_path / "turns")
    turns.create()
    with pytest.raises(ValueError, match="no turn"):
        turns.longest_ms()
    with open(tmp_path / "turns", "r+b") as opened:
        shared = mmap.mmap(opened.fileno(), LAYOUT.size)
    monkeypatch.setattr(MeteredSelector, "shared", shared, raising=False)
    monkeypatch.setattr(event_loop, "SendingSelector", MeteredSelector)

    async def work(seconds: float) -> None:
        await asyncio.sleep(0)
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=event_loop.EventLoop) as runner:
        runner.run(work(0.03))
        assert turns.longest_ms() >= 30
        turns.restart()
        runner.run(work(0.001))
        assert 1 <= turns.longest_ms() < 30
    shared.close()


def test_there_are_as_many_acls_as_are_named() -> None:
    acls = acls_of("authorization-1")
    assert len({str(acl) for acl in acls}) == len(acls) == ACLS


@pytest.mark.parametrize(
    ("only", "groups"),
    [("", set(FIGURES)), ("slow-loris", {"slow_loris"}), ("lean-produce,reconnects", {"tls_reconnects"})],
)
def test_single_figures_are_chosen_by_their_names_too(only: str, groups: set[str]) -> None:
    assert {group for group in FIGURES if is_named(group, only)} == groups
