"""Tokens of OAUTHBEARER: which are valid, and that no forged one is."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt import PyJWS, encode

from services.gateway.core.authentication import session_ms
from services.gateway.core.bearer_token import Bearer, InvalidToken, TokenRules, ValidToken, read_bearer, verified
from services.gateway.core.signing_keys import KEYS_MAX, NO_KEYS, SigningKeys, UnusableKeys, read_keys
from tests.gateway.token_issuer import AUDIENCE, ISSUER, claims, first_message, forged, key_set, private_key, public_jwk, token

NOW_S = 1_700_000_000.0
RULES = TokenRules(ISSUER, (AUDIENCE,))
KEYS = read_keys(key_set(public_jwk("RSA", "k"), public_jwk("P-256", "e"), public_jwk("P-384", "e"), public_jwk("Ed25519", "d")))


def signed(**changed: object) -> str:
    return token(claims(NOW_S, **changed))


def judged(text: str, keys: SigningKeys = KEYS, rules: TokenRules = RULES) -> ValidToken | InvalidToken:
    return verified(text, keys, rules, NOW_S)


def reason(text: str, rules: TokenRules = RULES) -> str:
    outcome = judged(text, rules=rules)
    assert isinstance(outcome, InvalidToken)
    return outcome.reason


@pytest.mark.parametrize(
    ("kind", "algorithm", "key_id"),
    [
        *(("RSA", algorithm, "k") for algorithm in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("P-256", "ES256", "e"),
        ("P-384", "ES384", "e"),
        ("Ed25519", "EdDSA", "d"),
        ("RSA", "RS256", None),
    ],
)
def test_a_token_of_each_algorithm_names_its_user(kind: str, algorithm: str, key_id: str | None) -> None:
    assert judged(token(claims(NOW_S), kind, algorithm, key_id)) == ValidToken("u", NOW_S + 3600)


def test_without_an_id_a_token_needs_the_only_key_of_its_algorithm() -> None:
    keys = read_keys(key_set(public_jwk("RSA", "k"), public_jwk("RSA other", "o")))
    assert isinstance(judged(token(claims(NOW_S), key_id=None), keys), InvalidToken)
    assert isinstance(judged(signed(), keys), ValidToken)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"exp": None}, "claim exp"),
        ({"iat": None}, "claim iat"),
        ({"sub": None}, "claim of the subject"),
        ({"exp": int(NOW_S) - 31}, "expired"),
        ({"iat": int(NOW_S) + 31}, "not valid yet"),
        ({"nbf": int(NOW_S) + 31}, "not valid yet"),
        ({"nbf": "soon"}, "claim nbf"),
        ({"exp": str(int(NOW_S) + 60)}, "claim exp"),
        ({"exp": True}, "claim exp"),
        ({"exp": float("inf")}, "claim exp"),
        ({"exp": float("nan")}, "claim exp"),
        ({"exp": -1}, "claim exp"),
        ({"exp": [int(NOW_S) + 60]}, "claim exp"),
        ({"iat": 10**400}, "claim iat"),
        ({"sub": ""}, "claim of the subject"),
        ({"sub": " u"}, "claim of the subject"),
        ({"sub": "u\n"}, "claim of the subject"),
        ({"sub": "u\0"}, "claim of the subject"),
        ({"sub": "\ud800"}, "claim of the subject"),
        ({"sub": "u" * 1025}, "claim of the subject"),
        ({"sub": {"sub": "u"}}, "claim of the subject"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": [["penstock"], {"penstock": 1}]}, "audience"),
        ({"aud": AUDIENCE.upper()}, "audience"),
    ],
)
def test_a_claim_that_is_missing_or_wrong_makes_it_invalid(changed: dict[str, object], expected: str) -> None:
    kept = {name: value for name, value in changed.items() if value is not None}
    content = {name: value for name, value in claims(NOW_S).items() if name not in changed}
    assert reason(token({**content, **kept})) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": int(NOW_S) - 29},
        {"iat": int(NOW_S) + 29},
        {"exp": NOW_S + 0.5},
        {"exp": 10**300},
        {"aud": ["other", AUDIENCE]},
        {"sub": "用户 1"},
        {"nbf": int(NOW_S) - 60},
    ],
)
def test_what_is_valid(changed: dict[str, object]) -> None:
    assert isinstance(judged(signed(**changed)), ValidToken)


def test_issuer_and_audience_are_not_checked_unless_configured_and_another_claim_may_name_the_user() -> None:
    rules = replace(RULES, issuer="", audiences=(), subject_claim="client_id")
    assert judged(token(claims(NOW_S, iss=None, aud=None, client_id="c")), rules=rules) == ValidToken("c", NOW_S + 3600)
    assert reason(signed(), rules) == "claim of the subject"


PUBLIC_PEM = private_key("RSA").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "HS512", "RS1", "ES256K", "A128KW"])
@pytest.mark.parametrize("signature", [b"", b"x"])
def test_an_algorithm_that_is_not_listed_is_refused(algorithm: str, signature: bytes) -> None:
    assert reason(forged({"alg": algorithm, "kid": "k"}, claims(NOW_S), signature)) == "algorithm"


@pytest.mark.parametrize("secret", [PUBLIC_PEM, PUBLIC_PEM.strip(), json.dumps(public_jwk("RSA", "k")).encode(), b""])
@pytest.mark.parametrize("algorithm", ["HS256", "RS256"])
def test_the_public_key_is_no_secret_to_sign_with(secret: bytes, algorithm: str) -> None:
    """Confusion of algorithms, such as CVE-2022-29217."""
    head = forged({"alg": algorithm, "kid": "k", "typ": "JWT"}, claims(NOW_S)).rpartition(".")[0]
    mac = urlsafe_b64encode(hmac.new(secret, head.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()
    assert reason(f"{head}.{mac}") == {"HS256": "algorithm", "RS256": "signature"}[algorithm]


@pytest.mark.parametrize(
    ("kind", "algorithm", "key_id"), [("P-256", "ES256", "k"), ("RSA", "RS256", "e"), ("P-256", "ES256", "d")]
)
def test_a_key_is_good_for_its_own_algorithms_only(kind: str, algorithm: str, key_id: str) -> None:
    assert reason(token(claims(NOW_S), kind, algorithm, key_id)) == "no key of its id and algorithm"


def test_a_key_of_one_named_algorithm_is_good_for_that_one_only() -> None:
    keys = read_keys(key_set(public_jwk("RSA", "k", alg="RS512")))
    assert isinstance(judged(signed(), keys), InvalidToken)
    assert isinstance(judged(token(claims(NOW_S), algorithm="RS512"), keys), ValidToken)


def test_an_unknown_key_is_told_apart_since_the_keys_may_have_changed() -> None:
    assert judged(token(claims(NOW_S), key_id="new")) == InvalidToken("no key of its id and algorithm", key_is_unknown=True)
    assert isinstance(judged(signed(), NO_KEYS), InvalidToken)


def test_another_signature_is_refused() -> None:
    head, _, own = signed().rpartition(".")
    other = signed(sub="v").rpartition(".")[2]
    assert reason(f"{head}.{other}") == "signature"
    assert reason(token(claims(NOW_S), "RSA other")) == "signature"
    changed = forged({"alg": "RS256", "kid": "k"}, claims(NOW_S, sub="v")).rpartition(".")[0]
    assert reason(f"{changed}.{own}") == "signature"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "!!.!!.!!",
        "é.é.é",
        "x" * 16_000,
        ".".join(["x" * 5000] * 3),
        forged(b"[]", {}),
        forged(b"null", {}),
        forged(b"[" * 8000, {}),
        forged({"alg": ["RS256"], "kid": "k"}, claims(NOW_S)),
        forged({"alg": None, "kid": "k"}, claims(NOW_S)),
        forged({"kid": "k"}, claims(NOW_S)),
        forged({"alg": "RS256", "kid": 1}, claims(NOW_S)),
        forged({"alg": "RS256", "kid": {"k": "k"}}, claims(NOW_S)),
        forged({"alg": "RS256", "kid": "k", "crit": ["exp"]}, claims(NOW_S)),
        forged({"alg": "RS256", "kid": "k", "b64": False}, b""),
        forged({"alg": "RS256", "kid": "k", "b64": False, "crit": ["b64"]}, b""),
    ],
)
def test_what_is_no_token_is_malformed(text: str) -> None:
    assert reason(text) == "malformed"


def test_a_token_in_a_token_is_malformed() -> None:
    assert isinstance(judged(signed().replace(".", "")), InvalidToken)
    assert isinstance(judged(forged({"alg": "RS256", "kid": "k", "cty": "JWT"}, signed().encode(), b"x")), InvalidToken)


@pytest.mark.parametrize("payload", [b"[]", b'"u"', b"null", b"[" * 4000, b"{", b"\xff", b""])
def test_claims_that_are_no_object_are_malformed(payload: bytes) -> None:
    assert reason(PyJWS().encode(payload, private_key("RSA"), "RS256", {"kid": "k"})) == "malformed"


@pytest.mark.parametrize("name", ["jku", "jwk", "x5u", "x5c"])
def test_a_key_that_a_token_brings_is_not_used(name: str) -> None:
    brought = {"kid": "brought", name: public_jwk("RSA other", "brought") if name == "jwk" else "https://evil.example/keys"}
    assert reason(encode(claims(NOW_S), private_key("RSA other"), "RS256", brought)) == "no key of its id and algorithm"


SEGMENTS = st.one_of(
    st.text("abcXYZ019-_=. ", max_size=20),
    st.sampled_from(signed().split(".")),
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "exp", "sub"]),
        st.sampled_from(["none", "RS256", "k", 1, None, [], {}]),
    ).map(lambda content: urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()),
)


@given(st.lists(SEGMENTS, max_size=5).map(".".join))
def test_whatever_is_sent_is_judged_and_only_the_signed_token_is_valid(text: str) -> None:
    assert isinstance(judged(text), InvalidToken) or text == ".".join(signed().split("."))


# --- the first message of a client ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("n,,\x01auth=Bearer a.b-c_d\x01\x01", Bearer("a.b-c_d", "")),
        ("n,,\x01auth=bearer   t\x01\x01", Bearer("t", "")),
        ("n,a=u,\x01auth=Bearer t\x01\x01", Bearer("t", "u")),
        ("n,a=a=2Cb=3D,\x01auth=Bearer t\x01\x01", Bearer("t", "a,b=")),
        ("n,,\x01auth=Bearer t\x01logicalCluster=x\x01pool=y z\x01\x01", Bearer("t", "")),
        ("n,,\x01host=h\x01auth=Bearer t\x01\x01", Bearer("t", "")),
    ],
)
def test_a_first_message_is_read(message: str, expected: Bearer) -> None:
    assert read_bearer(message) == expected
    assert repr(expected) == "Bearer([hidden])"


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\x01",
        "n,,",
        "n,,\x01\x01",
        "n,,\x01auth=Bearer t\x01",
        "n,,\x01auth=Bearer t",
        "n,,\x01auth=Bearer \x01\x01",
        "n,,\x01auth=Basic t\x01\x01",
        "n,,\x01auth=Bearer t t\x01\x01",
        "n,,\x01auth=Bearer t\x01auth=Bearer t\x01\x01",
        "n,,\x01auth=Bearer té\x01\x01",
        "n,,\x01auth=Bearer t\x01key1=x\x01\x01",
        "n,,\x01auth=Bearer t\x01key\x01\x01",
        "n,,\x01auth=Bearer t\x01key=\x01\x01",
        "y,,\x01auth=Bearer t\x01\x01",
        "p=tls-unique,,\x01auth=Bearer t\x01\x01",
        "n,a=,\x01auth=Bearer t\x01\x01",
        "n,a=a=b,\x01auth=Bearer t\x01\x01",
        "n,b=u,\x01auth=Bearer t\x01\x01",
        "n,,x\x01auth=Bearer t\x01\x01",
        "n,,\x01auth=Bearer t\x01\x01\x01",
        "n,,auth=Bearer t",
        "\0u\0password",
    ],
)
def test_another_first_message_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match="not a first message of OAUTHBEARER"):
        read_bearer(message)


@given(st.lists(st.sampled_from([*"nya=,\x01 \0é", "auth=", "Bearer ", "t", "n,,"]), max_size=12).map("".join))
def test_whatever_is_sent_first_is_read_or_refused(message: str) -> None:
    with suppress(ValueError):
        assert "hidden" in repr(read_bearer(message))


def test_the_message_of_the_issuer_in_tests_is_one() -> None:
    assert read_bearer(first_message("t").decode()) == Bearer("t", "")


# --- key sets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "k", "alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "k", "alg": "RS256"},
        public_jwk("RSA", "k", use="enc"),
        public_jwk("RSA", "k", key_ops=["encrypt"]),
        public_jwk("RSA", "k", key_ops="verify"),
        public_jwk("RSA", "k", alg="ES256"),
        public_jwk("RSA", "k", alg=["RS256"]),
        public_jwk("RSA", "k", d="AQAB"),
        public_jwk("RSA", "k", n="AQAB"),
        public_jwk("RSA", "k", n="!"),
        public_jwk("RSA", "k", n=1),
        public_jwk("RSA", "k", n=None),
        public_jwk("RSA 1024", "k"),
        public_jwk("P-256", "k", crv="secp256k1"),
        public_jwk("P-256", "k", crv="P-384"),
        public_jwk("P-256", "k", crv=["P-256"]),
        public_jwk("P-256", "k", x="AQAB"),
        {**public_jwk("RSA"), "kid": 7},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        {},
        [],
        None,
        "key",
    ],
)
def test_a_key_that_cannot_or_must_not_be_used_is_left_out(jwk: object) -> None:
    with pytest.raises(UnusableKeys, match="no public key that is for signatures"):
        read_keys(json.dumps({"keys": [jwk]}).encode())
    assert len(read_keys(json.dumps({"keys": [jwk, public_jwk("P-256", "good")]}).encode())) == 1


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"[]", b"null", b"<html>", b"{}", b'{"keys":{}}', b'{"keys":[]}', b"[" * 100_000, b"\xff", b" " * 262_145),
        json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(),
    ],
)
def test_what_is_no_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(UnusableKeys):
        read_keys(document)


# --- the end of a session -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session_s_max", "expires_at_s", "expected"),
    [
        (0.0, None, None),
        (60.0, None, 60_000),
        (0.0, NOW_S + 30, 30_000),
        (60.0, NOW_S + 30, 30_000),
        (60.0, NOW_S + 90, 60_000),
        (60.0, NOW_S - 10, 0),
        (0.0, 1e300, 1_000_000_000_000),
    ],
)
def test_a_session_ends_with_the_token_or_its_own_time(
    session_s_max: float, expires_at_s: float | None, expected: int | None
) -> None:
    assert session_ms(session_s_max, expires_at_s, NOW_S) == expected
