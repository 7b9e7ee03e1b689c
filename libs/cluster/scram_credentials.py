"""Users' SCRAM credentials (RFC 5802): their record in the metadata store, and what of them may be shown.

A record has StoredKey and ServerKey. Neither gives the password away, but who has them can pretend to be the server. So they
stand outside of what images hold, and nothing that shows a record shows them.
"""

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.store import KeyValue
from libs.lean_dataclass import dataclass

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"

MECHANISMS: Final[Mapping[int, str]] = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""Kafka's mechanisms, by their number in requests."""
HASHES: Final[Mapping[str, Callable[..., Any]]] = {SCRAM_SHA_256: hashlib.sha256, SCRAM_SHA_512: hashlib.sha512}

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES_MIN: Final = 12
"""The package `scramp`, which carries out exchanges, refuses a shorter salt."""

SALT_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server needs of one user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, [hidden])"


@dataclass(frozen=True, slots=True)
class _Record:
    """The JSON form of a credential. Bytes are in base64."""

    salt: str
    stored_key: str
    server_key: str
    iterations: int


def derived(mechanism: str, salted_password: bytes) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey of a password that PBKDF2 has salted."""
    made_hash = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", made_hash)
    return made_hash(client_key).digest(), hmac.digest(salted_password, b"Server Key", made_hash)


def salt_of(number: int) -> bytes:
    """A salt as Kafka's tools make it of a random number of `SALT_BITS`."""
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.rjust(SALT_BYTES_MIN, "0").encode()


def encoded(credential: ScramCredential) -> bytes:
    parts = (credential.salt, credential.stored_key, credential.server_key)
    salt, stored_key, server_key = [base64.b64encode(part).decode() for part in parts]
    return encode(_Record(salt, stored_key, server_key, credential.iterations))


def contents_of(users: Mapping[tuple[str, str], ScramCredential], secret: bytes) -> dict[str, bytes]:
    """What a store holds that has these users, by (mechanism, user), and no others."""
    credentials = {keys.scram_credential(mechanism, user): encoded(each) for (mechanism, user), each in users.items()}
    return {keys.SCRAM_SECRET: secret, **credentials} if users else {}


def users_of(items: Iterable[KeyValue]) -> dict[tuple[str, str], ScramCredential]:
    """The users among a store's items, by (mechanism, user). Raises RecordError."""
    return {keys.scram_user_of(item.key): decoded(item.value) for item in items if item.key.startswith(keys.SCRAM_CREDENTIALS)}


def decoded(value: bytes) -> ScramCredential:
    """Raises RecordError, which shows nothing of the record."""
    try:
        record = decode(_Record, value)
        texts = (record.salt, record.stored_key, record.server_key)
        salt, stored_key, server_key = [base64.b64decode(text, validate=True) for text in texts]
    except (RecordError, binascii.Error, ValueError):
        raise RecordError("a SCRAM credential cannot be read") from None
    return ScramCredential(salt, stored_key, server_key, record.iterations)


class ScramCredentials:
    """All credentials of the cluster at one revision of the store, and the secret that invents those of unknown users."""

    def __init__(self, secret: bytes) -> None:
        """`secret` serves until the store has one: it has one as soon as there is a user."""
        self._secret = secret
        self._of: dict[tuple[str, str], ScramCredential] = {}
        self._users_by_iterations: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """The number of users that have each count of iterations, by mechanism: an attempt to log in walks over no users."""

    def take(self, item: KeyValue) -> None:
        """Raises RecordError."""
        if item.key == keys.SCRAM_SECRET:
            self._secret = item.value
        elif item.key.startswith(keys.SCRAM_CREDENTIALS):
            self._set(keys.scram_user_of(item.key), decoded(item.value))

    def remove(self, key: str) -> None:
        if key.startswith(keys.SCRAM_CREDENTIALS):
            self._set(keys.scram_user_of(key), None)

    def _set(self, of: tuple[str, str], credential: ScramCredential | None) -> None:
        counts = self._users_by_iterations[of[0]]
        if (former := self._of.pop(of, None)) is not None:
            counts[former.iterations] -= 1
            if not counts[former.iterations]:
                del counts[former.iterations]
        if credential is not None:
            self._of[of] = credential
            counts[credential.iterations] += 1

    def get(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._of.get((mechanism, user))

    def iterations_max(self, mechanism: str) -> int:
        """The most iterations that a user of the mechanism has. 0: it has no user."""
        return max(self._users_by_iterations[mechanism], default=0)

    def invented(self, mechanism: str, user: str) -> ScramCredential:
        """A credential for an unknown user, which no password fits. It is the same at every gateway and every time, as long as
        the users are the same. Its salt looks as Kafka's tools make salts, and its iterations are as frequent as among users of
        the mechanism: whoever asks does not learn that there is no such user."""
        iterations = self._drawn_iterations(mechanism, self._digest(f"{mechanism}/{user}"))
        # With other iterations the salt is another, as it is for a user whose password was changed.
        seed = self._digest(f"{mechanism}/{user}/{iterations}")
        salt = salt_of(int.from_bytes(seed) >> (8 * len(seed) - SALT_BITS))
        size = HASHES[mechanism]().digest_size
        return ScramCredential(salt, bytes(size), bytes(size), iterations)

    def _drawn_iterations(self, mechanism: str, seed: bytes) -> int:
        """The iterations of the user at the place that the seed names, where users stand in the order of their iterations."""
        counts = self._users_by_iterations[mechanism]
        place = int.from_bytes(seed) * counts.total() >> 8 * len(seed)
        for iterations in sorted(counts):
            place -= counts[iterations]
            if place < 0:
                return iterations
        return ITERATIONS_MIN

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), hashlib.sha512)

    @property
    def users(self) -> Mapping[str, Mapping[str, int]]:
        """Each user's mechanisms, with their iterations."""
        users: dict[str, dict[str, int]] = {}
        for (mechanism, user), credential in sorted(self._of.items()):
            users.setdefault(user, {})[mechanism] = credential.iterations
        return users


def is_prepared(name: str) -> bool:
    """Whether SASLprep (RFC 4013) allows a name and leaves it as it is. Clients differ in whether they apply it."""
    if unicodedata.normalize("NFKC", name) != name:
        return False
    if any(forbidden(each) for each in name for forbidden in _FORBIDDEN):
        return False
    if not any(map(stringprep.in_table_d1, name)):
        return True
    return not any(map(stringprep.in_table_d2, name)) and all(map(stringprep.in_table_d1, (name[0], name[-1])))


_FORBIDDEN: Final = (
    stringprep.in_table_a1,
    stringprep.in_table_b1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)
"""What SASLprep forbids, removes or replaces, as tables of characters. A.1, unassigned ones, is forbidden in stored names."""
