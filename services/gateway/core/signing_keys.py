"""The keys by which tokens of OAUTHBEARER are checked: a JSON Web Key Set (RFC 7517). No I/O.

A key is good for the algorithms of its type only, whatever a token asks for (RFC 8725). Symmetric keys are left out, since each
that checks with one could also sign. So are keys that are not for signatures.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): RSA_ALGORITHMS,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""By a key's type and curve. No others are accepted."""
KNOWN_ALGORITHMS: Final = frozenset(each for algorithms in ALGORITHMS.values() for each in algorithms)

DOCUMENT_BYTES_MAX: Final = 262_144
KEYS_MAX: Final = 256
RSA_BITS: Final = range(2048, 8193)
"""A shorter key is weak. A longer one takes long to check with."""


class UnusableKeys(Exception):
    """A document without a usable key. Its message is for the operator."""


class SigningKeys:
    """Public keys by their id."""

    def __init__(self, keys: Mapping[tuple[str, str], object]) -> None:
        """`keys`: by key id and algorithm. The id may be empty."""
        self._keys = keys

    def __len__(self) -> int:
        return len({key_id for key_id, _ in self._keys})

    def find(self, key_id: str, algorithm: str) -> object | None:
        """The key of a token. One that names none has the only key of its algorithm."""
        if key_id:
            return self._keys.get((key_id, algorithm))
        candidates = [key for (_, each), key in self._keys.items() if each == algorithm]
        return candidates[0] if len(candidates) == 1 else None


NO_KEYS: Final = SigningKeys({})


def read_keys(document: bytes) -> SigningKeys:
    """Raises UnusableKeys. A key that is not understood is left out: sets may have keys for other purposes."""
    if len(document) > DOCUMENT_BYTES_MAX:
        raise UnusableKeys(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise UnusableKeys("it is not a JSON Web Key Set") from error
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise UnusableKeys(f"its keys are not a list of at most {KEYS_MAX}")
    found: dict[tuple[str, str], object] = {}
    for each in listed:
        for key_id, algorithm, key in _usable(each):
            found.setdefault((key_id, algorithm), key)
    if not found:
        raise UnusableKeys("it has no public key that is for signatures")
    return SigningKeys(found)


def _usable(jwk: object) -> Iterator[tuple[str, str, object]]:
    """Key id, algorithm and key, for each algorithm that the key is good for."""
    if not isinstance(jwk, dict) or not _checks_signatures(jwk):
        return
    key_id, named = jwk.get("kid", ""), jwk.get("alg")
    algorithms = _algorithms(jwk)
    if named is not None:
        algorithms = tuple(each for each in algorithms if each == named)
    if not algorithms or not isinstance(key_id, str) or (key := _public_key(jwk, algorithms[0])) is None:
        return
    for algorithm in algorithms:
        yield key_id, algorithm, key


def _checks_signatures(jwk: dict[str, Any]) -> bool:
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations and "d" not in jwk


def _algorithms(jwk: dict[str, Any]) -> tuple[str, ...]:
    kind, curve = jwk.get("kty"), jwk.get("crv", "")
    return ALGORITHMS.get((kind, curve), ()) if isinstance(kind, str) and isinstance(curve, str) else ()


def _public_key(jwk: dict[str, Any], algorithm: str) -> object | None:
    from jwt import PyJWK, PyJWTError

    try:
        key: Any = PyJWK(jwk, algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    return None if jwk["kty"] == "RSA" and key.key_size not in RSA_BITS else key
