"""Tests of `tests.support.open_transports`."""

import asyncio
import ssl
from pathlib import Path

from tests.support.certificates import client_context, make_authority
from tests.support.open_transports import all_closed


def test_a_tls_connection_that_was_closed_twice_counts_as_closed(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority.sign("localhost", "/CN=localhost", names="DNS:localhost"))

    async def open_and_close_twice() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "localhost", 0, ssl=serving)
        port = server.sockets[0].getsockname()[1]
        _reader, writer = await asyncio.open_connection("localhost", port, ssl=client_context(authority))
        writer.transport.close()
        # A later close() of asyncio's TLS transport makes it forget its connection.
        writer.transport.close()
        async with all_closed():
            server.close()

    asyncio.run(open_and_close_twice())
