"""How a client connects, from a file of Java's clients: what Kafka's tools take by `--command-config`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from libs.client.security import MECHANISMS, PROTOCOLS, Security, SecurityProblem
from libs.java_properties import parse_properties

_PREFIXES: Final = ("security.", "ssl.", "sasl.")
_STORES: Final = {"ssl.truststore.location": "ssl.truststore.type", "ssl.keystore.location": "ssl.keystore.type"}
_SERVED: Final = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.endpoint.identification.algorithm"),
        *_STORES.keys(),
        *_STORES.values(),
    }
)
_JAAS: Final = re.compile(r'[\w.]+\.(?:Plain|Scram)LoginModule\s+required\s+(?P<options>(?:\w+\s*=\s*"(?:\\.|[^"\\])*"\s*)*);\s*')
_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class SecurityOfFile(Security):
    """`properties_file` has the password too, which each connection reads anew."""

    properties_file: str = ""

    def password(self) -> str:
        return _login(self.properties_file, _read(self.properties_file))["password"]


def read_client_properties(file: str) -> Security:
    """What a `client.properties` says of security; its other settings do not count. Raises SecurityProblem.

    A setting of security that would have no effect is refused, so that nobody is less protected than the file says.
    """
    properties = {name: value for name, value in _read(file).items() if name.startswith(_PREFIXES)}
    if needless := sorted(properties.keys() - _SERVED):
        raise SecurityProblem(f"{file}: {', '.join(needless)} has no effect here; expected {', '.join(sorted(_SERVED))} only")
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise SecurityProblem(f"{file}: security.protocol is {protocol!r}; expected one of {', '.join(PROTOCOLS)}")
    kind = protocol.rpartition("_")[2]
    for prefix, is_used, protocols in (
        ("ssl.", kind == "SSL", "SSL and SASL_SSL"),
        ("sasl.", protocol.startswith("SASL"), "SASL_PLAINTEXT and SASL_SSL"),
    ):
        if not is_used and (needless := sorted(name for name in properties if name.startswith(prefix))):
            raise SecurityProblem(f"{file}: {needless[0]} is for {protocols}, and security.protocol is {protocol}")
    _refuse_unserved_tls(file, properties)
    user = None
    if protocol.startswith("SASL"):
        if properties.get("sasl.mechanism") not in MECHANISMS:
            raise SecurityProblem(
                f"{file}: sasl.mechanism is {properties.get('sasl.mechanism')!r}; expected one of {', '.join(MECHANISMS)}"
            )
        user = _login(file, properties)["username"]
    stores = {name: properties.get(name) for name in _STORES}
    return SecurityOfFile(
        protocol,
        properties.get("sasl.mechanism"),
        user,
        ca_file=stores["ssl.truststore.location"],
        certificate_file=stores["ssl.keystore.location"],
        properties_file=file,
    )


def _refuse_unserved_tls(file: str, properties: Mapping[str, str]) -> None:
    for location, kind in _STORES.items():
        if location in properties and properties.get(kind) != "PEM":
            raise SecurityProblem(
                f"{file}: {kind} is {properties.get(kind, 'JKS')}; expected PEM (docs/security.md, A certificate)"
            )
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        raise SecurityProblem(f"{file}: ssl.endpoint.identification.algorithm must be https: names in certificates are checked")


def _login(file: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The options of `sasl.jaas.config`. No message has what stands there."""
    login = _JAAS.fullmatch(properties.get("sasl.jaas.config", ""))
    options = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _OPTION.findall(login["options"])} if login else {}
    if not (options.get("username") and options.get("password")):
        raise SecurityProblem(
            f"{file}: sasl.jaas.config has no user and password; expected ….PlainLoginModule or ….ScramLoginModule, then "
            'required username="…" password="…";'
        )
    return options


def _read(file: str) -> dict[str, str]:
    """Java reads such files as ISO 8859-1."""
    try:
        return parse_properties(Path(file).read_text(encoding="latin-1"))
    except OSError as error:
        raise SecurityProblem(f"{file} cannot be read: {error.strerror}") from None
