"""SASL exchanges: tokens of each mechanism, JSON Web Tokens and the key sets that they are checked by.

Byte 0: what it is. Of an exchange, the rest is tokens with a byte 255 between them. In a token, a byte 254 stands for the first
or last message of an honest client, and 253 for its JSON Web Token. So mutations begin where a client with a password is.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt import PyJWS
from scramp import ScramClient

from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredentials
from libs.wire.errors import ErrorCode
from services.gateway.core.authentication import (
    MECHANISMS,
    OAUTHBEARER,
    PLAIN,
    Accepted,
    Denied,
    Login,
    PasswordCheck,
    Refused,
    SaslExchange,
    State,
    TokenCheck,
)
from services.gateway.core.bearer_token import InvalidToken, TokenRules, ValidToken, verified
from services.gateway.core.signing_keys import SigningKeys, UnusableKeys, read_keys
from tests.gateway.sasl_users import SECRET, known, put

_NONCE = "nonce-of-the-gateway"
_NOW_S = 1_700_000_000
_RULES = TokenRules("https://issuer.example", ("penstock",))
_SIGNED, _KEYS = 5, 6
_SEPARATOR, _HONEST, _HONEST_TOKEN = b"\xff", b"\xfe", b"\xfd"


def check(data: bytes) -> None:
    if not data:
        return
    kind = data[0] & 7
    if kind == _SIGNED:
        _check_verified(_signed(data[1:]))
    elif kind == _KEYS:
        try:
            assert len(read_keys(data[1:])) > 0
        except UnusableKeys:
            pass
    else:
        _check_exchange(MECHANISMS[kind % len(MECHANISMS)], bool(data[0] & 8), data[1:].split(_SEPARATOR)[:4])


def _check_exchange(mechanism: str, is_again: bool, tokens: list[bytes]) -> None:
    before = Login(mechanism, "u") if is_again else None
    exchange = SaslExchange(MECHANISMS, _users(), lambda: _NONCE, before)
    assert exchange.handshake(mechanism) is ErrorCode.NONE
    for number, mutated in enumerate(tokens):
        if not exchange.expects_token:
            break
        sent = mutated.replace(_HONEST, _honest(mechanism)[min(number, 1)]).replace(_HONEST_TOKEN, _honest_token())
        outcome = exchange.take(sent)
        if isinstance(outcome, PasswordCheck):
            assert "hidden" in repr(outcome)
            outcome = exchange.checked(outcome.user, holds=outcome.password == SECRET.encode() and outcome.user == "u")
        elif isinstance(outcome, TokenCheck):
            outcome = exchange.token_checked(outcome.bearer, _check_verified(outcome.bearer.token))
        assert len(getattr(outcome, "token", b"")) <= 2 * len(sent) + 256
        if isinstance(outcome, Denied | Refused):
            assert exchange.state is State.FAILED
        if isinstance(outcome, Accepted) and outcome.user:
            assert exchange.state is State.DONE
            assert outcome.user == "u", "somebody got in under a name without a password"
            assert _shows_secret(mechanism, sent), sent


def _shows_secret(mechanism: str, sent: bytes) -> bool:
    """Whether the last token has what only the user's own client knows."""
    if mechanism == PLAIN:
        return SECRET.encode() in sent
    if mechanism == OAUTHBEARER:
        return _honest_token().split(b".")[2] in sent
    return _honest(mechanism)[1].rpartition(b",p=")[2] in sent


def _check_verified(token: str) -> ValidToken | InvalidToken:
    outcome = verified(token, _keys(), _RULES, _NOW_S)
    if isinstance(outcome, ValidToken):
        assert outcome.user.strip() == outcome.user != ""
        assert outcome.expires_at_s > _NOW_S - _RULES.clock_skew_s
    return outcome


@cache
def _users() -> ScramCredentials:
    users = known(u=SCRAM_SHA_256)
    put(users, "u", SCRAM_SHA_512)
    return users


@cache
def _honest(mechanism: str) -> tuple[bytes, bytes]:
    """Both messages of a client that knows the password; once, since PBKDF2 takes milliseconds."""
    if mechanism == PLAIN:
        return b"\0u\0" + SECRET.encode(), b""
    if mechanism == OAUTHBEARER:
        return b"n,,\x01auth=Bearer " + _honest_token() + b"\x01\x01", b"\x01"
    client = ScramClient([mechanism], "u", SECRET, c_nonce="nonce-of-the-client")
    exchange = SaslExchange(MECHANISMS, _users(), lambda: _NONCE)
    exchange.handshake(mechanism)
    first = client.get_client_first().encode()
    answer = exchange.take(first)
    assert isinstance(answer, Accepted)
    client.set_server_first(answer.token.decode())
    return first, client.get_client_final().encode()


@cache
def _key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _jwk() -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": _text(_key().public_key().public_bytes_raw())}


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


@cache
def _keys() -> SigningKeys:
    return read_keys(json.dumps({"keys": [_jwk()]}).encode())


def _signed(payload: bytes) -> str:
    return PyJWS().encode(payload, _key(), "EdDSA", {"kid": "k"})


@cache
def _honest_token() -> bytes:
    """Once, since a signature takes as long as all the rest."""
    return _signed(_claims()).encode()


@cache
def _claims() -> bytes:
    times = {"iat": _NOW_S, "exp": _NOW_S + 60}
    return json.dumps({"sub": "u", **times, "iss": _RULES.issuer, "aud": ["penstock", "other"]}).encode()


def seeds() -> Iterator[bytes]:
    for kind, mechanism in enumerate(MECHANISMS):
        first, last = _honest(mechanism)
        for again in (0, 8):
            yield bytes((kind | again,)) + _SEPARATOR.join((_HONEST, _HONEST))
            yield bytes((kind | again,)) + _SEPARATOR.join((first, last, b"more"))
    yield bytes((3,)) + b"n,a=u,\x01auth=Bearer " + _HONEST_TOKEN + b"\x01name=value\x01\x01"
    yield bytes((_SIGNED,)) + _claims()
    yield bytes((_SIGNED,)) + b'{"sub":"u","exp":1e300,"iat":0,"nbf":-1,"aud":"x"}'
    rsa = {"kty": "RSA", "kid": "r", "n": _text(b"\x81" + bytes(254) + b"\1"), "e": "AQAB", "use": "sig", "key_ops": ["verify"]}
    ec = {"kty": "EC", "crv": "P-256", "x": _text(bytes(32)), "y": _text(bytes(32)), "alg": "ES256"}
    for jwk in (_jwk(), rsa, ec):
        yield bytes((_KEYS,)) + json.dumps({"keys": [jwk]}).encode()
