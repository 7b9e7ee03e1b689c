"""Users that a cluster has from its beginning: the words of `kafka-storage format --add-scram`, and what the store holds."""

import base64
import hashlib
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, decoded, derived
from services.controller.administration.first_users import new_salt, read_users
from services.controller.core.administration.first_users import USER_CHANGES_MAX, Users, WrongUser, first_users
from tests.controller.running_controller import running_controller, story

SALT = b"sixteen bytes of"
SALT_TEXT = base64.b64encode(SALT).decode()
SECRET = "a-password-that-nobody-may-see"


def users_of(*texts: str) -> Users:
    return first_users([(f"line {number}", text) for number, text in enumerate(texts, 1)], lambda: SALT)


def salted(iterations: int = 4096) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", SECRET.encode(), SALT, iterations)


@pytest.mark.parametrize(
    ("parts", "iterations"),
    [
        (f"name=alice,password={SECRET}", 4096),
        (f'name="alice",password="{SECRET}"', 4096),
        (f"password={SECRET},iterations=8192,name=alice", 8192),
        (f"name=alice,password={SECRET},salt={SALT_TEXT}", 4096),
        (f"name=alice,saltedpassword={base64.b64encode(salted()).decode()},salt={SALT_TEXT}", 4096),
    ],
)
def test_an_entry_gives_the_keys_that_kafka_derives(parts: str, iterations: int) -> None:
    [(named, credential)] = users_of(f" SCRAM-SHA-256=[{parts}] ").items()
    assert named == (SCRAM_SHA_256, "alice")
    assert (credential.salt, credential.iterations) == (SALT, iterations)
    assert (credential.stored_key, credential.server_key) == derived(SCRAM_SHA_256, salted(iterations))


def test_a_user_may_have_a_password_for_each_mechanism() -> None:
    users = users_of("SCRAM-SHA-256=[name=u,password=p]", "SCRAM-SHA-512=[name=u,password==p=]")
    assert [*users] == [(SCRAM_SHA_256, "u"), (SCRAM_SHA_512, "u")]
    assert len(users[SCRAM_SHA_512, "u"].server_key) == 64


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SECRET, "line 1: expected SCRAM-SHA-256=[name=USER,password=PASSWORD]"),
        (f"SCRAM-SHA-256=name=u,password={SECRET}", "line 1: expected SCRAM-SHA-256=[name=USER,password=PASSWORD]"),
        (f"PLAIN=[name=u,password={SECRET}]", "line 1: its mechanism is none of SCRAM-SHA-256, SCRAM-SHA-512"),
        (f"SCRAM-SHA-256=[password={SECRET}]", "line 1: name= is missing"),
        (f"SCRAM-SHA-256=[name=u,password=one,{SECRET}]", "values hold no comma"),
        (f"SCRAM-SHA-256=[name=u,password=one,password={SECRET}]", "password= is given twice"),
        ("SCRAM-SHA-256=[name=u]", "expected one of password= and saltedpassword="),
        ("SCRAM-SHA-256=[name=u,password=]", "password= is empty"),
        ("SCRAM-SHA-256=[name=,password=p]", "Username must not be empty"),
        ("SCRAM-SHA-256=[name=I\u00adX,password=p]", "Username must be as SASLprep"),
        ("SCRAM-SHA-256=[name=u,saltedpassword=AAAA]", "saltedpassword= needs the salt="),
        (f"SCRAM-SHA-256=[name=u,saltedpassword=AAAA,salt={SALT_TEXT}]", "saltedpassword= is not of 32 bytes"),
        (f"SCRAM-SHA-256=[name=u,password={SECRET},salt=????]", "salt= is not in base64"),
        (f"SCRAM-SHA-256=[name=u,password={SECRET},salt=AAAA]", "The salt has less than 12 bytes"),
        (f"SCRAM-SHA-256=[name=u,password={SECRET},iterations=4095]", "Too few iterations"),
        (f"SCRAM-SHA-256=[name=u,password={SECRET},iterations=16385]", "Too many iterations"),
        (f"SCRAM-SHA-256=[name=u,password={SECRET},iterations=1e4]", "iterations= is not a whole number"),
    ],
)
def test_a_wrong_entry_is_named_without_what_it_holds(text: str, reason: str) -> None:
    with pytest.raises(WrongUser) as refused:
        users_of(text)
    assert reason in str(refused.value)
    assert SECRET not in str(refused.value)


def test_nobody_has_two_passwords_for_a_mechanism_and_a_cluster_begins_with_so_many_at_most() -> None:
    entries = [f"SCRAM-SHA-256=[name=u{number},password=p]" for number in range(USER_CHANGES_MAX + 1)]
    with pytest.raises(WrongUser, match=r"line 2: this user has a password for this mechanism already"):
        users_of(entries[0], entries[0])
    with pytest.raises(WrongUser, match=rf"line {USER_CHANGES_MAX + 1}: a cluster begins with at most {USER_CHANGES_MAX}"):
        users_of(*entries)


def test_a_file_has_a_line_for_each_password_and_may_have_comments(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# of the cluster in hall 7\n\nSCRAM-SHA-256=[name=u,password=p]\n", encoding="utf-8")
    [credential] = read_users(str(file)).values()
    assert credential.salt != next(iter(read_users(str(file)).values())).salt, "each has a salt of its own"
    file.write_text(f"# one\n{SECRET}\n", encoding="utf-8")
    with pytest.raises(WrongUser, match=rf"{file}: line 2: expected SCRAM-SHA-256="):
        read_users(str(file))
    for content in (b"", b"\xff"):
        file.write_bytes(content)
        with pytest.raises(WrongUser, match=str(file)):
            read_users(str(file))
    with pytest.raises(WrongUser, match="cannot be read: No such file"):
        read_users(str(tmp_path / "none"))


def test_a_new_salt_looks_as_those_of_kafkas_tools() -> None:
    assert 20 <= len(new_salt()) <= 26
    assert new_salt().isalnum()


@story
async def test_a_new_cluster_has_its_first_users_and_a_later_start_changes_none() -> None:
    store = MemoryStore()
    users = users_of("SCRAM-SHA-256=[name=alice,password=p]")
    async with running_controller(store, first_users=users) as running:
        await running.elected()
        stored = await store.get(keys.scram_credential(SCRAM_SHA_256, "alice"))
        assert stored is not None
        assert decoded(stored.value) == users[SCRAM_SHA_256, "alice"]
        assert await store.get(keys.SCRAM_SECRET) is not None
    others = users_of("SCRAM-SHA-256=[name=alice,password=another]", "SCRAM-SHA-256=[name=bob,password=p]")
    async with running_controller(store, 2, first_users=others) as running:
        await running.elected()
        assert await store.get(stored.key) == stored
        assert await store.get(keys.scram_credential(SCRAM_SHA_256, "bob")) is None
