"""Who is answered at an admin port. No I/O but for the file of the token.

With a token, whoever sends it as `Authorization: Bearer TOKEN` is answered. Without one, everybody is who names the host as it
may be named: a web page whose name an attacker resolves to this address (DNS rebinding) sends the attacker's name. Such an attack
needs a name with a dot, so addresses and names without one always pass. /healthz and /readyz are free.
"""

import hmac
import ipaddress
import logging
import re
import socket
from collections.abc import Iterable
from typing import Final

from libs.followed_files import FollowedFiles
from libs.lean_dataclass import dataclass
from libs.telemetry.logs import fields

log = logging.getLogger("process")

FREE: Final = frozenset({"/healthz", "/readyz", "/readyz/in-sync"})
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_BYTES_MAX: Final = 4096
_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*", re.ASCII)
"""RFC 6750. Anything else would need quotes somewhere."""
_BRACKETED: Final = re.compile(r"\[([^][]*)\](?::\d*)?", re.ASCII)
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str


class AdminAccess:
    """The rule of one port. `names`: those of this host that have a dot. `token`: empty if none is needed. `token_file`: its
    file, which is read again when it changes; empty if there is none. Raises as `read_token` does."""

    def __init__(self, names: Iterable[str] = (), token: str = "", *, token_file: str = "") -> None:
        self._names = frozenset(_plain(name) for name in names if name)
        self._token_file = token_file
        self._followed = FollowedFiles([token_file] if token_file else [])  # from before the token is read
        self._token = (read_token(token_file) if token_file else token).encode()

    @property
    def needs_token(self) -> bool:
        return bool(self._token)

    def refusal(self, path: str, host: str, authorization: str) -> Refusal | None:
        """`host`, `authorization`: the request's headers, empty where it has none. None: it is answered."""
        if path in FREE:
            return None
        if self._followed.changed():
            self._read_again()
        if self._token:
            given = authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else ""
            if hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token):
                return None
            return Refusal(UNAUTHORIZED, "send the token of PENSTOCK_ADMIN_TOKEN_FILE as Authorization: Bearer TOKEN")
        if self._may_be_named(_plain(host)):
            return None
        return Refusal(FORBIDDEN, "this host has another name: ask by its address, or list the name in PENSTOCK_ADMIN_NAMES")

    def _read_again(self) -> None:
        """A file that cannot be used leaves the former token in force: a port that asked for one never opens."""
        try:
            self._token = read_token(self._token_file).encode()
        except (OSError, ValueError) as error:
            log.error("new admin token not used", extra=fields(path=self._token_file, reason=str(error)))

    def _may_be_named(self, name: str) -> bool:
        return "." not in name or name in self._names or name.endswith(".localhost") or is_address(name)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def access_to(names: Iterable[str], token_file: str) -> AdminAccess:
    """The rule of a port of this host, which has its own name beside `names`. `token_file`: empty if none is needed. Raises as
    `read_token` does."""
    return AdminAccess((socket.gethostname(), *names), token_file=token_file)


def read_token(path: str) -> str:
    """The token in a file. Raises OSError, and ValueError with a sentence that does not show it."""
    with open(path, "rb") as file:
        content = file.read(TOKEN_BYTES_MAX + 1)
    token = content.decode("ascii", "replace").strip()
    if len(token) < TOKEN_CHARACTERS_MIN or len(content) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        raise ValueError(
            f"expected one token of {TOKEN_CHARACTERS_MIN} to {TOKEN_BYTES_MAX} letters, digits and -._~+/, such as from "
            "openssl rand -hex 32"
        )
    return token


def _plain(host: str) -> str:
    """The host of a Host header without its port and brackets. What is no host stays as it is."""
    if (bracketed := _BRACKETED.fullmatch(host)) is not None:
        return bracketed[1]
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() and ":" not in name else host).lower().rstrip(".")
