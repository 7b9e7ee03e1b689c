"""The key and the certificates of the listeners with TLS, which may change while the gateway runs."""

import asyncio
import logging
import ssl

from libs.der import Malformed, expires_at
from libs.followed_files import FollowedFiles, keep_looking
from libs.pem_files import Unusable, first_certificate
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, TlsSettings, server_context
from libs.telemetry.logs import fields
from services.gateway.core.distinguished_name import subject_name
from services.gateway.gateway_meters import GatewayMeters

log = logging.getLogger("network")


class Certificates:
    """Those of one gateway. Connections that are there keep the certificate that they began with. Call `close` at the end."""

    def __init__(self, meters: GatewayMeters, handshake_s_max: float) -> None:
        self._meters = meters
        self._handshake_s_max = handshake_s_max
        self._handshakes = Handshakes()
        self._servers: list[tuple[TlsSettings, TlsServer]] = []
        self._watched = FollowedFiles(())
        self._following: asyncio.Task[None] | None = None

    def serve(self, settings: TlsSettings) -> TlsServer:
        """It reads the files. Raises Unusable."""
        self._watched = FollowedFiles(settings.files)
        server = TlsServer(server_context(settings), self._handshakes, handshake_s_max=self._handshake_s_max)
        self._note(_own_certificate(settings))
        self._servers.append((settings, server))
        return server

    def start(self) -> None:
        self._following = asyncio.get_running_loop().create_task(keep_looking(self.look), name="certificates")

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
        if not self._watched.changed():
            return None
        settings, _ = self._servers[0]
        return [server_context(each) for each, _ in self._servers], _own_certificate(settings)

    def _note(self, certificate: bytes) -> None:
        self._meters.certificate_expires_at = expires_at(certificate)

    def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._handshakes.close()


def _own_certificate(settings: TlsSettings) -> bytes:
    """The first of the keystore, in DER. Raises Unusable."""
    certificate = first_certificate(settings.keystore)
    try:
        subject_name(certificate)
        expires_at(certificate)
    except Malformed as error:
        raise Unusable(f"the certificate in {settings.keystore} cannot be read: {error}") from error
    return certificate
