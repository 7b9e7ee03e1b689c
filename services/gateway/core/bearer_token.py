"""A client's token of OAUTHBEARER: how it arrives (RFC 7628), and what makes it valid (RFC 7519, KIP-768). No I/O.

PyJWT checks the signature. The claims are checked here, at a time that the caller gives. No reason of a refusal quotes a token.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from math import isfinite
from typing import Any, Final

from libs.lean_dataclass import dataclass
from services.gateway.core.signing_keys import KNOWN_ALGORITHMS, SigningKeys

SEPARATOR: Final = "\x01"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""The error that answers a token, as in Kafka. The client answers it by one `SEPARATOR`, and is denied."""
NAME_BYTES_MAX: Final = 1024

_AUTHORIZATION: Final = re.compile(r"bearer +([-_.a-zA-Z0-9]+)", re.ASCII | re.IGNORECASE)
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[\x21-\x7e \t\r\n]+", re.ASCII)
_ACTING_AS: Final = re.compile(r"(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?")
"""Any character but NUL, the separator, comma and equals sign."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """The first message of a client."""

    token: str
    acting_as: str
    """The user that the client wants to be. Empty: the one whom the token names."""

    def __repr__(self) -> str:
        return "Bearer([hidden])"


def read_bearer(text: str) -> Bearer:
    """Raises ValueError. Extensions are checked and have no effect."""
    parts = text.split(SEPARATOR)
    header = parts[0].split(",")
    if len(parts) < 4 or parts[-2:] != ["", ""] or len(header) != 3 or header[0] != "n" or header[2]:
        raise ValueError("not a first message of OAUTHBEARER")
    named = _ACTING_AS.fullmatch(header[1])
    given = [pair[5:] for pair in parts[1:-2] if pair.startswith("auth=")]
    authorization = _AUTHORIZATION.fullmatch(given[0]) if len(given) == 1 else None
    if named is None or authorization is None or not all(_EXTENSION.fullmatch(pair) for pair in parts[1:-2]):
        raise ValueError("not a first message of OAUTHBEARER")
    return Bearer(authorization[1], (named[1] or "").replace("=2C", ",").replace("=3D", "="))


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What is configured for all tokens."""

    issuer: str = ""
    """Empty: any."""
    audiences: Sequence[str] = ()
    """A token must be for one of them. Empty: for anybody."""
    subject_claim: str = "sub"
    clock_skew_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ValidToken:
    user: str
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class InvalidToken:
    reason: str
    """For the operator. The client hears that its token is invalid."""
    key_is_unknown: bool = False


class _Invalid(Exception):
    """Its text is the reason."""


def verified(token: str, keys: SigningKeys, rules: TokenRules, now_s: float) -> ValidToken | InvalidToken:
    """Takes up to a millisecond: call it in a thread."""
    from jwt import InvalidSignatureError, PyJWTError

    jws = _jws()
    try:
        header = jws.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or not isinstance(key_id, str):
            return InvalidToken("malformed")
        if algorithm not in KNOWN_ALGORITHMS:
            return InvalidToken("algorithm")
        key: Any = keys.find(key_id, algorithm)
        if key is None:
            return InvalidToken("no key of its id and algorithm", key_is_unknown=True)
        claims: Any = json.loads(jws.decode(token, key, algorithms=[algorithm]))
        return _valid(claims, rules, now_s)
    except InvalidSignatureError:
        return InvalidToken("signature")
    except _Invalid as error:
        return InvalidToken(str(error))
    except (PyJWTError, ValueError, TypeError, RecursionError):
        return InvalidToken("malformed")


@cache
def _jws() -> Any:
    """PyJWT takes a while to import. It is here only where the mechanism is enabled."""
    from jwt import PyJWS

    return PyJWS(algorithms=sorted(KNOWN_ALGORITHMS))


def _valid(claims: object, rules: TokenRules, now_s: float) -> ValidToken:
    """Raises _Invalid."""
    if not isinstance(claims, dict):
        raise _Invalid("malformed")
    expires_at_s, issued_at_s = _time(claims, "exp"), _time(claims, "iat")
    if expires_at_s <= now_s - rules.clock_skew_s:
        raise _Invalid("expired")
    if max(issued_at_s, _time(claims, "nbf") if "nbf" in claims else issued_at_s) > now_s + rules.clock_skew_s:
        raise _Invalid("not valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise _Invalid("issuer")
    if rules.audiences and not _audiences(claims) & {*rules.audiences}:
        raise _Invalid("audience")
    return ValidToken(_user(claims, rules.subject_claim), expires_at_s)


def _time(claims: dict[str, Any], name: str) -> float:
    """Seconds since the epoch."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Invalid(f"claim {name}")
    try:
        seconds = float(value)
    except OverflowError:
        raise _Invalid(f"claim {name}") from None
    if not isfinite(seconds) or seconds < 0:
        raise _Invalid(f"claim {name}")
    return seconds


def _audiences(claims: dict[str, Any]) -> set[str]:
    given = claims.get("aud")
    listed = given if isinstance(given, list) else [given]
    return {each for each in listed if isinstance(each, str)}


def _user(claims: dict[str, Any], name: str) -> str:
    user = claims.get(name)
    if not isinstance(user, str) or not user or user != user.strip() or not user.isprintable():
        raise _Invalid("claim of the subject")
    if len(user.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise _Invalid("claim of the subject")
    return user
