"""The server's side of TLS: its certificate and its rules. Keys come from PEM files, and are never logged."""

import os
import ssl
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

from libs.lean_dataclass import dataclass
from libs.rpc.transport.tls_handshakes import Handshakes

CHUNK: Final = 65_536
"""The most bytes that are encrypted and sent at once. A connection keeps as many while its socket is full."""
SCRATCH: Final = 98_304
"""Also a part of a record, and what is received behind it."""
PEM_BYTES_MAX: Final = 4 << 20
NO_FILE: Final = (0, 0, 0)
"""The stamp of a file that is not there. Whoever reads it hears why."""
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = b"-----BEGIN "
_JAVA_KEYSTORE: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"


class Unusable(ValueError):
    """Keys or certificates that TLS cannot be served with. Its text is a sentence for the operator."""


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


def read_pem(path: str) -> bytes:
    """Raises Unusable for anything but PEM."""
    try:
        with open(path, "rb") as file:
            content = file.read(PEM_BYTES_MAX)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error
    if content.startswith(_JAVA_KEYSTORE):
        raise Unusable(f"{path} is a JKS keystore. Only PEM is served: keytool and openssl pkcs12 convert it")
    if content.startswith(_DER_SEQUENCE):
        raise Unusable(f"{path} is a PKCS12 keystore, or DER. Only PEM is served: openssl pkcs12 converts it")
    if _PEM not in content:
        raise Unusable(f"{path} is not a PEM file")
    return content


def stamps_of(paths: Iterable[str]) -> list[tuple[int, int, int]]:
    """What changes when one of the files is written, replaced or removed. It reads directories only."""
    return [_stamp(path) for path in paths]


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return NO_FILE
    return found.st_ino, found.st_mtime_ns, found.st_size


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """It reads files, and may take milliseconds. Raises Unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [VERSIONS[protocol] for protocol in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A client that renegotiates again and again would have its handshakes computed by the event loop.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    for path in filter(None, (settings.keystore, settings.key)):
        read_pem(path)
    try:
        context.load_cert_chain(settings.keystore, settings.key or None, password=lambda: _password(settings))
    except (OSError, ValueError) as error:
        if isinstance(error, Unusable):
            raise
        if settings.key:
            raise Unusable(f"{settings.keystore} and {settings.key} are no certificate and its key: {_reason(error)}") from error
        raise Unusable(f"{settings.keystore} has no usable key and certificate: {_reason(error)}") from error
    if settings.truststore:
        read_pem(settings.truststore)
        try:
            context.load_verify_locations(settings.truststore)
        except (OSError, ValueError) as error:
            raise Unusable(f"{settings.truststore} has no usable certificates: {_reason(error)}") from error
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


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


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
