"""Users that a cluster has from its beginning, written as for `kafka-storage format --add-scram`.

An entry is `SCRAM-SHA-256=[name=alice,password=alice-secret]`. It may also have `iterations` and `salt`, and it may have `salt`
and `saltedpassword` (both in base64) in the place of `password`. As in Kafka, a value may stand in double quotes, and holds no
comma.

No refusal shows a value, which may be a password.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from libs.cluster.scram_credentials import HASHES, ITERATIONS_MIN, MECHANISMS, ScramCredential, derived
from libs.rpc.contracts.controller import ScramUpsertion
from services.controller.core.administration.scram_credentials import USER_CHANGES_MAX, checked
from services.controller.core.model.refusal import Refused

EXPECTED: Final = "expected SCRAM-SHA-256=[name=USER,password=PASSWORD]"
_PARTS: Final = ("name", "password", "saltedpassword", "salt", "iterations")
_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
_ITERATIONS_DIGITS_MAX: Final = 9

Users = Mapping[tuple[str, str], ScramCredential]
"""Credentials by mechanism and user."""


class WrongUser(Exception):
    """An entry that cannot be used. It names the entry's place and what is wrong."""


def first_users(entries: Iterable[tuple[str, str]], new_salt: Callable[[], bytes]) -> Users:
    """`entries`: each with the name of its place, such as `line 2`. Raises WrongUser."""
    users: dict[tuple[str, str], ScramCredential] = {}
    for place, text in entries:
        try:
            named, credential = _user_of(text, new_salt)
            if named in users:
                raise WrongUser("this user has a password for this mechanism already")
            if len(users) == USER_CHANGES_MAX:
                raise WrongUser(f"a cluster begins with at most {USER_CHANGES_MAX} passwords; add others with kafka-configs")
        except WrongUser as error:
            raise WrongUser(f"{place}: {error}") from None
        users[named] = credential
    return users


def _user_of(text: str, new_salt: Callable[[], bytes]) -> tuple[tuple[str, str], ScramCredential]:
    mechanism, equals, rest = text.strip().partition("=")
    if not equals or not rest.startswith("[") or not rest.endswith("]"):
        raise WrongUser(EXPECTED)
    if mechanism not in _NUMBERS:
        raise WrongUser(f"its mechanism is none of {', '.join(_NUMBERS)}")
    parts = _parts_of(rest[1:-1])
    salt = _bytes_of(parts, "salt") if "salt" in parts else new_salt()
    iterations = _iterations_of(parts)
    try:
        checked(_exists_not, ScramUpsertion(parts["name"], _NUMBERS[mechanism], iterations, salt, b"", b""))
    except Refused as refused:
        raise WrongUser(refused.message) from None
    stored_key, server_key = derived(mechanism, _salted_password(mechanism, parts, salt, iterations))
    return (mechanism, parts["name"]), ScramCredential(salt, stored_key, server_key, iterations)


def _parts_of(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in _PARTS:
            raise WrongUser(f"a part is none of {', '.join(f'{each}=' for each in _PARTS)}; values hold no comma")
        if name in parts:
            raise WrongUser(f"{name}= is given twice")
        parts[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if "name" not in parts:
        raise WrongUser("name= is missing")
    if ("password" in parts) == ("saltedpassword" in parts):
        raise WrongUser("expected one of password= and saltedpassword=")
    if "saltedpassword" in parts and "salt" not in parts:
        raise WrongUser("saltedpassword= needs the salt= that it was made with")
    return parts


def _iterations_of(parts: Mapping[str, str]) -> int:
    text = parts.get("iterations", str(ITERATIONS_MIN))
    if not text.isascii() or not text.isdecimal() or len(text) > _ITERATIONS_DIGITS_MAX:
        raise WrongUser("iterations= is not a whole number")
    return int(text)


def _salted_password(mechanism: str, parts: Mapping[str, str], salt: bytes, iterations: int) -> bytes:
    made_hash = HASHES[mechanism]()
    if "password" in parts:
        if not parts["password"]:
            raise WrongUser("password= is empty")
        try:
            return hashlib.pbkdf2_hmac(made_hash.name, parts["password"].encode(), salt, iterations)
        except UnicodeEncodeError:
            raise WrongUser("password= is no text in UTF-8") from None
    salted = _bytes_of(parts, "saltedpassword")
    if len(salted) != made_hash.digest_size:
        raise WrongUser(f"saltedpassword= is not of {made_hash.digest_size} bytes, as {mechanism} makes them")
    return salted


def _bytes_of(parts: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(parts[name], validate=True)
    except (binascii.Error, ValueError):
        raise WrongUser(f"{name}= is not in base64") from None


def _exists_not(mechanism: str, user: str) -> bool:
    return False
