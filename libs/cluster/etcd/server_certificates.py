"""When the certificates of etcd's members expire, as this process sees them: gRPC does not tell, so it shakes hands by itself."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from libs.cluster.etcd.etcd_tls import ANSWERS_WITHIN_S, EtcdTls
from libs.der import Malformed, expires_at
from libs.host_port import split_port

LOOK_S: Final = 600.0
"""How often each member is asked."""


class ServerCertificates:
    """Those that members show to clients at `addresses`. `follow` them."""

    def __init__(self, addresses: Sequence[str], tls: EtcdTls) -> None:
        self._tls = tls
        self._ends = dict.fromkeys(addresses, 0.0)

    @property
    def expires_at(self) -> float:
        """The earliest end, in seconds since the epoch. A member that does not answer counts with what it last showed. 0.0: none
        has answered."""
        return min(filter(None, self._ends.values()), default=0.0)

    async def follow(self) -> None:
        """Asks again and again, until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        for address in self._ends:
            self._ends[address] = await asyncio.to_thread(_shown_at, address, self._tls.for_looks) or self._ends[address]


def _shown_at(address: str, context: ssl.SSLContext) -> float:
    """The end of the certificate that a member shows now. 0.0: it does not answer. The connection ends with the handshake."""
    host, port = split_port(address)
    with contextlib.suppress(OSError, ValueError, Malformed):
        connection = socket.create_connection((host, int(port)), ANSWERS_WITHIN_S)
        with connection, context.wrap_socket(connection, server_hostname=host) as connected:
            return expires_at(connected.getpeercert(binary_form=True) or b"")
    return 0.0
