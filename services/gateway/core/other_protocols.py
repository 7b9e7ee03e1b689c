"""Protocols that are not Kafka's, by the first bytes of a connection. Each one is a mistake that its sender can mend. Pure.

Kafka's protocol begins with a length of four bytes. What others begin with reads as a length beyond any limit.
"""

from typing import Final

TLS: Final = "TLS on a plaintext port: set security.protocol=PLAINTEXT in the client, or give it the port of a listener with TLS"
NO_TLS: Final = "plaintext on a TLS port: set security.protocol=SSL, or SASL_SSL, in the client"
HTTP: Final = "HTTP on a Kafka port: metrics and health are on the admin port"
PROXY: Final = "PROXY protocol: this port does not read it, so switch it off in the load balancer"
SSH: Final = "SSH on a Kafka port"

OTHER_PROTOCOLS: Final = frozenset((TLS, NO_TLS, HTTP, PROXY, SSH))

_TLS_RECORD = b"\x16\x03"
"""RFC 8446 §5.1: a handshake, and 3 as the major version."""
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI ")
_PROXY_HEADERS = (b"PROX", b"\r\n\r\n")
"""Of its versions 1 and 2."""


def other_protocol(length: int) -> str | None:
    """What speaks, if `length` is no length: for a person. `length` is signed, of 32 bits."""
    first = length.to_bytes(4, "big", signed=True)
    if first.startswith(_TLS_RECORD):
        return TLS
    if first in _HTTP_METHODS:
        return HTTP
    if first in _PROXY_HEADERS:
        return PROXY
    return SSH if first == b"SSH-" else None


def not_tls(first: bytes) -> str:
    """What speaks on a port with TLS, by its first bytes, which are no TLS: for a person."""
    return other_protocol(int.from_bytes(first, "big", signed=True) if len(first) == 4 else 0) or NO_TLS
