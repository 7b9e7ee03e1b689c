"""The settings of a gateway's listeners, under Kafka's names, and what of them is refused."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from libs.host_port import without_brackets
from libs.lean_dataclass import dataclass
from services.gateway.core.authentication import MECHANISMS, OAUTHBEARER, PLAIN

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
WITH_TLS: Final = (SSL, SASL_SSL)
WITH_SASL: Final = (SASL_PLAINTEXT, SASL_SSL)
CLIENT_AUTH: Final = ("none", "requested", "required")
DEFAULT_MAPPING: Final = "DEFAULT"
"""The rule by which the whole subject of a certificate is the name of its user."""
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_ALL_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})
_SET_BY: Final = {
    PLAINTEXT: "PENSTOCK_LISTEN_HOST and PENSTOCK_PORT_BASE set the listener without authentication",
    SSL: "PENSTOCK_SSL_LISTENER sets the listener with TLS and without SASL",
    SASL_PLAINTEXT: "PENSTOCK_SASL_LISTENER sets it",
    SASL_SSL: "PENSTOCK_SASL_LISTENER sets it",
}


class Unserved(ValueError):
    """A setting that would ask for what is not there. Its message is the sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Address:
    """Protocol, host and bootstrap port of a listener. Broker id i has that port plus i."""

    protocol: str
    host: str
    port_base: int


def listener_address(text: str, protocols: Sequence[str]) -> Address:
    """Of one listener, as Kafka's `listeners` has it: `SASL_SSL://0.0.0.0:9492`. Raises Unserved."""
    protocol, separator, address = text.partition("://")
    if separator and protocol not in protocols:
        raise Unserved(f"{protocol} is not served here: {_SET_BY.get(protocol) or 'only ' + ' and '.join(protocols)}")
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 1 <= int(port) < 65_535):
        raise Unserved(f"{text!r} is not of the form {protocols[-1]}://HOST:PORT")
    return Address(protocol, without_brackets(host), int(port))


def port_clash(listens: Mapping[str, Address], broker_ids: Iterable[int] = ()) -> str | None:
    """The sentence about two listeners that need one port. `listens`: by the setting of each. None: all ports differ."""
    offsets = {0, *broker_ids}
    for (setting, first), (other, second) in combinations(listens.items(), 2):
        shared = {first.port_base + each for each in offsets} & {second.port_base + each for each in offsets}
        if shared and (first.host == second.host or {first.host, second.host} & _ALL_HOSTS):
            return f"{setting} and {other} both need port {min(shared)}: broker id i has the port of each listener plus i"
    return None


def check_advertised(listens: Address, advertised: Address) -> None:
    """Raises Unserved."""
    if advertised.protocol != listens.protocol:
        raise Unserved(f"{advertised.protocol} is advertised, and the listener is {listens.protocol}")


def check_mechanisms(enabled: Sequence[str], *, plain_is_allowed: bool, oauthbearer_is_allowed: bool) -> None:
    """They are allowed with TLS, or by name. Raises Unserved."""
    if not enabled:
        raise Unserved("names no mechanism")
    for mechanism in enabled:
        if mechanism not in MECHANISMS:
            raise Unserved(f"{mechanism} is not served: {', '.join(MECHANISMS)} are")
    if PLAIN in enabled and not plain_is_allowed:
        raise Unserved(
            "PLAIN without TLS shows passwords to anyone on the network. PENSTOCK_SASL_PLAIN_WITHOUT_TLS=true allows it"
        )
    if OAUTHBEARER in enabled and not oauthbearer_is_allowed:
        raise Unserved(
            "OAUTHBEARER without TLS shows tokens to anyone on the network. PENSTOCK_SASL_OAUTHBEARER_WITHOUT_TLS=true allows it"
        )


def check_tls_versions(enabled: Sequence[str]) -> None:
    """Raises Unserved."""
    if not enabled:
        raise Unserved("names no version of TLS")
    for version in enabled:
        if version not in TLS_VERSIONS:
            raise Unserved(f"{version} is not served: {' and '.join(TLS_VERSIONS)} are")


def check_store_type(kind: str) -> None:
    """Raises Unserved."""
    if kind != "PEM":
        raise Unserved(f"{kind} is not served: only PEM is. openssl pkcs12 makes PEM of PKCS12, and keytool PKCS12 of JKS")
