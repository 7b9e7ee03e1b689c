"""The settings of OAUTHBEARER, under Kafka's names, and what of them is refused."""

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from libs.lean_dataclass import dataclass
from services.gateway.core.bearer_token import TokenRules

CLOCK_SKEW_S_MAX: Final = 600
"""A larger one would undo the expiry of tokens."""
REFRESH_S_MIN: Final = 1


class NoKeySource(ValueError):
    """Its message is the sentence for the operator."""


@dataclass(frozen=True, slots=True)
class KeyFile:
    path: str


@dataclass(frozen=True, slots=True)
class KeyEndpoint:
    """The one address that is asked for keys. Nothing in a token leads to another, and redirects are not followed."""

    host: str
    port: int
    target: str
    """Path and query."""
    ca_file: str = ""
    """The authorities that its certificate is checked by. Empty: those of the system."""


KeySource = KeyFile | KeyEndpoint


@dataclass(frozen=True, slots=True)
class Oauthbearer:
    """What a listener needs for the mechanism."""

    source: KeySource
    rules: TokenRules
    refresh_s: float


def key_source(url: str, ca_file: str = "") -> KeySource:
    """Raises NoKeySource."""
    if not url:
        raise NoKeySource("is empty; OAUTHBEARER needs the keys that tokens are checked by: https://… or file:///…")
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise NoKeySource("is not a URL") from error
    if parts.scheme == "file" and not parts.netloc and PurePosixPath(unquote(parts.path)).is_absolute():
        return KeyFile(unquote(parts.path))
    if parts.scheme != "https" or not parts.hostname:
        raise NoKeySource("is neither https://HOST/… nor file:///PATH: whoever can change the keys on their way can be anybody")
    if "@" in parts.netloc:
        raise NoKeySource("has a user or a password, which would be shown in logs")
    if not url.isascii() or any(character <= " " for character in url):
        raise NoKeySource("has characters that a URL cannot have")
    return KeyEndpoint(parts.hostname, port, f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", ca_file)
