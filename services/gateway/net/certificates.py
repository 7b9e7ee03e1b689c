"""The key and the certificates of the listeners with TLS, which may change while the gateway runs."""

import asyncio
import logging
import ssl
from typing import Final

from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, Unusable, read_pem, server_context, stamps_of
from libs.telemetry.logs import fields
from services.gateway.core.distinguished_name import Malformed, expires_at, subject_name
from services.gateway.gateway_meters import GatewayMeters

log = logging.getLogger("network")

LOOK_S: Final = 5.0
"""How often the files are looked at for a change."""
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


class Certificates:
    """Those of one gateway. Connections that are there keep the certificate that they began with. Call `close` at the end."""

    def __init__(self, meters: GatewayMeters, handshake_s_max: float) -> None:
        self._meters = meters
        self._handshake_s_max = handshake_s_max
        self._handshakes = Handshakes()
        self._servers: list[tuple[TlsSettings, TlsServer]] = []
        self._stamps: list[tuple[int, int, int]] = []
        self._following: asyncio.Task[None] | None = None

    def serve(self, settings: TlsSettings) -> TlsServer:
        """It reads the files. Raises Unusable."""
        self._stamps = stamps_of(settings.files)
        server = TlsServer(server_context(settings), self._handshakes, handshake_s_max=self._handshake_s_max)
        self._note(_own_certificate(settings))
        self._servers.append((settings, server))
        return server

    def start(self) -> None:
        self._following = asyncio.get_running_loop().create_task(self._follow(), name="certificates")

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Reads the files again if they have changed. Those that cannot be used leave the former ones in force."""
        try:
            read = await asyncio.to_thread(self._changed)
        except Unusable as error:
            log.error("new certificate of this gateway not used", extra=fields(reason=str(error)))
            return
        if read is not None:
            contexts, certificate = read
            for (_, server), context in zip(self._servers, contexts, strict=True):
                server.context = context
            self._note(certificate)
            log.info("certificate of this gateway read again", extra=fields(subject=subject_name(certificate)))

    def _changed(self) -> tuple[list[ssl.SSLContext], bytes] | None:
        """In a thread. None: the files are as they were, or have been refused before. Raises Unusable."""
        settings, _ = self._servers[0]
        stamps = stamps_of(settings.files)
        if stamps == self._stamps:
            return None
        self._stamps = stamps
        return [server_context(each) for each, _ in self._servers], _own_certificate(settings)

    def _note(self, certificate: bytes) -> None:
        self._meters.certificate_expires_at = expires_at(certificate)

    def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._handshakes.close()


def _own_certificate(settings: TlsSettings) -> bytes:
    """The first of the keystore, in DER. Raises Unusable."""
    content = read_pem(settings.keystore)
    begin = content.find(_BEGIN)
    end = content.find(_END, begin)
    try:
        certificate = ssl.PEM_cert_to_DER_cert(content[begin : end + len(_END)].decode("ascii"))
        subject_name(certificate)
        expires_at(certificate)
    except (ValueError, Malformed) as error:
        raise Unusable(f"the certificate in {settings.keystore} cannot be read: {error}") from error
    return certificate
