"""The server's side of TLS: its certificate and its rules. Keys come from PEM files, and are never logged."""

import ssl
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from libs.lean_dataclass import dataclass
from libs.pem_files import Unusable, load_own, read_pem, trust
from libs.rpc.transport.tls_handshakes import Handshakes
from libs.rpc.transport.tls_records import DATA_MAX

CHUNK: Final = 65_536
"""The bytes that are encrypted and sent at once, while more follow."""
LAST_CHUNK: Final = CHUNK + DATA_MAX
"""The most bytes that are encrypted and sent at once. A rest of one record at most leaves with the chunk before it, since a Fetch
answer is as long as the client allows, and its header comes on top. A connection keeps so many bytes while its socket is full."""
SCRATCH: Final = 98_304
"""Also a part of a record, and what is received behind it."""
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class ClientAuth(Enum):
    """Whether clients show a certificate. A certificate that is shown and not trusted ends the connection."""

    NONE = ssl.CERT_NONE
    REQUESTED = ssl.CERT_OPTIONAL
    REQUIRED = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """One listener's files and rules."""

    keystore: str
    """The PEM file of the private key, the certificate and its chain, in any order but for the certificate before its chain."""
    key_password_file: str = ""
    truststore: str = ""
    """The PEM file of the authorities whose clients are trusted."""
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: Sequence[str] = tuple(VERSIONS)
    key: str = ""
    """The PEM file of the private key. Empty: the keystore has it."""

    @property
    def files(self) -> Sequence[str]:
        return [path for path in (self.keystore, self.key, self.key_password_file, self.truststore) if path]


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """It reads files, and may take milliseconds. Raises Unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [VERSIONS[protocol] for protocol in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A client that renegotiates again and again would have its handshakes computed by the event loop.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    for path in filter(None, (settings.keystore, settings.key)):
        read_pem(path)
    load_own(context, settings.keystore, settings.key, password=lambda: _password(settings))
    if settings.truststore:
        read_pem(settings.truststore)
        trust(context, settings.truststore)
    context.verify_mode = settings.client_auth.value
    return context


def uris_of(connected: ssl.SSLObject) -> Sequence[str]:
    """The URIs among the names of the peer's certificate, which was verified. Empty if `ssl` cannot read its names."""
    try:
        certificate: Any = connected.getpeercert()
    except (ssl.SSLError, ValueError):
        return []
    return [value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]


def _password(settings: TlsSettings) -> bytes:
    """`ssl` asks only if the key is encrypted."""
    path = settings.key_password_file
    if not path:
        raise Unusable(f"the key in {settings.key or settings.keystore} is encrypted, and no file has its password")
    try:
        with open(path, "rb") as file:
            return file.read(1024).rstrip(b"\r\n")
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error


class TlsServer:
    """What the streams of a listener share. Connections that are there keep the certificate that they began with."""

    speaks_first: bool = False

    def __init__(self, context: ssl.SSLContext, handshakes: Handshakes, *, handshake_s_max: float) -> None:
        """`handshake_s_max`: the time in which a client must have sent its part of the handshake."""
        self.context = context
        self.handshakes = handshakes
        self.handshake_s_max = handshake_s_max
        self.scratch = memoryview(bytearray(SCRATCH))
        """Where a stream of this event loop receives, and joins what it encrypts next. It holds nothing between two calls."""

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.context.wrap_bio(incoming, outgoing, server_side=True)
