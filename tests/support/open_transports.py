"""Waits until asyncio's transports are closed, which clients in asyncio do not: under TLS one stays open until its peer has said
goodbye. The end of its loop would leave it, and the garbage collector would tell of it amid another test."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.polling import until


@asynccontextmanager
async def all_closed() -> AsyncIterator[None]:
    """Around clients, in their loop: what they open is closed at its end."""
    earlier = _open_ones()
    yield
    await until(lambda: all(any(each is other for other in earlier) for each in _open_ones()))


def _open_ones() -> list[asyncio.Transport]:
    # By type, since a dead weak reference has no class to ask for.
    return [each for each in gc.get_objects() if issubclass(type(each), asyncio.Transport) and _is_open(each)]


def _is_open(transport: asyncio.Transport) -> bool:
    try:
        connected = transport.get_extra_info("socket")
    except AttributeError:
        # A transport of TLS that was closed twice has forgotten its connection. The one below it has the socket.
        return False
    return connected is not None and connected.fileno() != -1
