"""TLS between processes on different hosts. Both ends show a certificate of the same authority, and demand one.

`libs/rpc/messages/peer_names.py` says what a certificate names, and compares it with the hello.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from libs.followed_files import FollowedFiles, keep_looking
from libs.lean_dataclass import dataclass
from libs.pem_files import Unusable, load_own, read_pem, trust
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_server import TlsServer, uris_of

log = logging.getLogger("network")

HANDSHAKE_S_MAX: Final = 10.0
_FLIGHTS_MAX: Final = 8
"""More than the messages of a handshake between two ends in one process."""


@dataclass(frozen=True, slots=True)
class PeerTlsFiles:
    """PEM files: the certificate with its chain, its private key, and the authorities whose certificates are trusted."""

    certificate: str
    key: str
    authorities: str

    @property
    def all(self) -> Sequence[str]:
        return self.certificate, self.key, self.authorities


class PeerContexts(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext
    uris: Sequence[str]
    """What the own certificate names."""
    expires_at: float
    """The end of its validity, in seconds since the epoch."""


class TlsClient(TlsServer):
    """The client's side: it speaks first."""

    speaks_first = True

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing)


class PeerTls:
    """What the connections of a process to others share. Connections that are there keep the certificate that they began with.

    `follow` the files, and call `close` at the end.
    """

    def __init__(self, files: PeerTlsFiles, own: Callable[[Sequence[str]], frozenset[str]] = frozenset) -> None:
        """It reads the files. `own`: which of a certificate's URIs a new one must name as well. Raises Unusable."""
        self._files, self._own = files, own
        self._watched = FollowedFiles(files.all)
        contexts = peer_contexts(files)
        self.uris, self.expires_at = contexts.uris, contexts.expires_at
        self._handshakes = Handshakes()
        self.server = TlsServer(contexts.server, self._handshakes, handshake_s_max=HANDSHAKE_S_MAX)
        self.client = TlsClient(contexts.client, self._handshakes, handshake_s_max=HANDSHAKE_S_MAX)

    async def follow(self) -> None:
        """Looks at the files again and again. Those that cannot be used leave the former ones in force."""
        await keep_looking(self.look)

    async def look(self) -> None:
        try:
            contexts = await asyncio.to_thread(self._changed)
        except Unusable as error:
            log.warning("new certificate of this process not used", extra={"fields": {"reason": str(error)}})
            return
        if contexts is not None:
            self.server.context, self.client.context = contexts.server, contexts.client
            self.expires_at = contexts.expires_at
            log.info("certificate of this process read again", extra={"fields": {"names": ",".join(contexts.uris)}})

    def _changed(self) -> PeerContexts | None:
        """In a thread. None: the files are as they were, or have been refused before. Raises Unusable."""
        if not self._watched.changed():
            return None
        contexts = peer_contexts(self._files)
        if self._own(contexts.uris) != self._own(self.uris):
            named, former = ", ".join(contexts.uris), ", ".join(self.uris)
            raise Unusable(f"{self._files.certificate} names {named}, and the former one {former}")
        return contexts

    def close(self) -> None:
        self._handshakes.close()


def peer_contexts(files: PeerTlsFiles) -> PeerContexts:
    """It reads files, and may take milliseconds. Raises Unusable."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # a certificate names a role and a node, wherever it runs
    server.num_tickets = 0  # connections are few and long
    for path in files.all:
        read_pem(path)
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        load_own(context, files.certificate, files.key)
        trust(context, files.authorities)
    return PeerContexts(server, client, *_own_certificate(server, client, files))


def _own_certificate(server: ssl.SSLContext, client: ssl.SSLContext, files: PeerTlsFiles) -> tuple[Sequence[str], float]:
    """The names and the expiry of the own certificate. The two ends shake hands, so it is checked as others will check it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for _ in range(_FLIGHTS_MAX):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        return uris_of(ends[0]), _expires_at(ends[0])
    except (ssl.SSLError, ValueError) as error:
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
        raise Unusable(f"{files.certificate} is not trusted by {files.authorities}: {reason}") from error


def _expires_at(end: ssl.SSLObject) -> float:
    """Raises ValueError."""
    certificate = end.getpeercert()
    if not certificate:
        raise ValueError("no certificate was shown")
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))
