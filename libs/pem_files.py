"""Files of keys and certificates in PEM, as operators give them."""

import os
import ssl
from collections.abc import Callable
from typing import Final

PEM_BYTES_MAX: Final = 4 << 20
_PEM: Final = b"-----BEGIN "
_REVOCATION_LIST: Final = b"-----BEGIN X509 CRL-----"
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_JAVA_KEYSTORE: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"


class Unusable(ValueError):
    """Keys or certificates that TLS cannot use. Its text is a sentence for the operator."""


def no_password() -> bytes:
    """Raises Unusable."""
    raise Unusable("the key is encrypted: give one without a password, in a file that only this user can read")


def read_pem(path: str) -> bytes:
    """Raises Unusable for anything but PEM, and for a revocation list, which OpenSSL would take and not look at."""
    try:
        with open(path, "rb") as file:
            content = file.read(PEM_BYTES_MAX)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from error
    if content.startswith(_JAVA_KEYSTORE):
        raise Unusable(f"{path} is a JKS keystore. Only PEM is served: keytool and openssl pkcs12 convert it")
    if content.startswith(_DER_SEQUENCE):
        raise Unusable(f"{path} is a PKCS12 keystore, or DER. Only PEM is served: openssl pkcs12 converts it")
    if _REVOCATION_LIST in content:
        raise Unusable(f"{path} has a revocation list, and none is read here (docs/security.md#revoked-certificates)")
    if _PEM not in content:
        raise Unusable(f"{path} is not a PEM file")
    return content


def load_own(context: ssl.SSLContext, certificate: str, key: str = "", password: Callable[[], bytes] = no_password) -> None:
    """Has a context show the certificate of a file, with its key in another. `key`: empty if the first file has it. `password` is
    asked if the key is encrypted, and may raise Unusable. Raises Unusable."""
    try:
        context.load_cert_chain(certificate, key or None, password=password)
    except Unusable:
        raise
    except (OSError, ValueError) as error:
        files = (
            f"{certificate} and {key} are no certificate and its key"
            if key
            else f"{certificate} has no usable key and certificate"
        )
        raise Unusable(f"{files}: {_reason(error)}") from error


def trust(context: ssl.SSLContext, authorities: str) -> None:
    """Has a context trust what the authorities of a file vouch for. Raises Unusable."""
    try:
        context.load_verify_locations(authorities)
    except (OSError, ValueError) as error:
        raise Unusable(f"{authorities} has no usable certificates: {_reason(error)}") from error


def first_certificate(path: str) -> bytes:
    """The first certificate of a file, in DER. Raises Unusable."""
    content = read_pem(path)
    begin = content.find(_BEGIN)
    end = content.find(_END, begin)
    try:
        return ssl.PEM_cert_to_DER_cert(content[begin : end + len(_END)].decode("ascii"))
    except ValueError as error:
        raise Unusable(f"the certificate in {path} cannot be read: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
