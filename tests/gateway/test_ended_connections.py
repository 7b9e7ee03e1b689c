"""Connections that have ended leave nothing to the garbage collector: thousands of them would stop the event loop for long."""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.rpc.transport.socket_stream import SocketStream
from services.gateway.net.connection import Connection
from tests.gateway.conftest import Rig
from tests.gateway.limited_clients import produced
from tests.gateway.tls_rig import TLS_AT, started
from tests.support.certificates import Authority, client_context
from tests.support.polling import until


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def ended() -> list[Connection | SocketStream]:
    """A gateway's connections, and their streams that are closed, which are still there."""
    found = [each for each in gc.get_objects() if isinstance(each, Connection | SocketStream)]
    return [each for each in found if not isinstance(each, SocketStream) or each.closing]


def ended_since(earlier: list[Connection | SocketStream]) -> list[str]:
    """The types of those that another test of this process did not leave."""
    return [type(each).__name__ for each in ended() if all(each is not other for other in earlier)]


@pytest.mark.parametrize("secured", [False, True])
@pytest.mark.usefixtures("no_collections")
async def test_an_ended_connection_is_freed_at_once(rig: Rig, keystore: Path, authority: Authority, secured: bool) -> None:
    await started(rig, keystore)
    earlier = ended()
    tls: ssl.SSLContext | None = client_context(authority) if secured else None
    client = await rig.client(TLS_AT if secured else 0, tls=tls)
    assert await produced(client) == 0
    assert "Connection" in ended_since(earlier)
    await client.close()
    await until(lambda: rig.closed("client") == 1)
    await asyncio.sleep(0)
    assert ended_since(earlier) == []
