"""SCRAM credentials as records, and that nothing shows them."""

import hashlib
from collections import Counter
from dataclasses import replace

import pytest
from scramp import ScramMechanism

from libs.cluster import keys
from libs.cluster.codec import RecordError
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.scram_credentials import (
    HASHES,
    MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramCredentials,
    decoded,
    derived,
    encoded,
    is_prepared,
)
from libs.cluster.store import KeyValue, Put

CREDENTIAL = ScramCredential(b"salt of a user", b"the stored key", b"the server key", 4096)
HIDDEN = ("salt of", "stored key", "server key")


@pytest.mark.parametrize("user", ["u", "a/b é\0\n", "%3Cdefault%3E", "<default>", "x" * 1000])
def test_a_key_names_mechanism_and_user_whatever_the_name_holds(user: str) -> None:
    for mechanism in MECHANISMS.values():
        key = keys.scram_credential(mechanism, user)
        assert keys.scram_user_of(key) == (mechanism, user)
        assert key.startswith(keys.SCRAM)
        assert not key.startswith(keys.PREFIX)


def test_another_spelling_of_a_key_is_refused() -> None:
    with pytest.raises(RecordError):
        keys.scram_user_of(keys.SCRAM_CREDENTIALS + "SCRAM-SHA-256/a b")


def test_a_record_comes_back_as_it_was() -> None:
    assert decoded(encoded(CREDENTIAL)) == CREDENTIAL


@pytest.mark.parametrize("damaged", [b"", b"{}", b'{"salt":"!","stored_key":"","server_key":"","iterations":1}', b"\xff"])
def test_a_damaged_record_is_refused_without_being_shown(damaged: bytes) -> None:
    with pytest.raises(RecordError, match=r"^a SCRAM credential cannot be read$"):
        decoded(damaged)


def test_a_credential_shows_its_iterations_only() -> None:
    assert repr(CREDENTIAL) == "ScramCredential(iterations=4096, [hidden])"
    assert not any(part in str([CREDENTIAL]) for part in HIDDEN)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_keys_are_those_of_the_package_that_carries_out_exchanges(mechanism: str) -> None:
    salt, stored_key, server_key, iterations = ScramMechanism(mechanism).make_auth_info("secret", 4096, b"a salt of 16 byte")
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism]().name, b"secret", salt, iterations)
    assert derived(mechanism, salted) == (stored_key, server_key)


def taken(*items: KeyValue, secret: bytes = b"of this process") -> ScramCredentials:
    credentials = ScramCredentials(secret)
    for item in items:
        credentials.take(item)
    return credentials


def item(key: str, value: bytes) -> KeyValue:
    return KeyValue(key, value, 1, 1, 0)


def test_users_are_told_with_their_mechanisms_until_they_are_removed() -> None:
    own = [item(keys.scram_credential(mechanism, "u"), encoded(CREDENTIAL)) for mechanism in MECHANISMS.values()]
    credentials = taken(*own, item(keys.SCRAM_SECRET, b"secret"))
    assert credentials.users == {"u": dict.fromkeys(MECHANISMS.values(), 4096)}
    assert credentials.get(SCRAM_SHA_256, "u") == CREDENTIAL
    credentials.remove(own[0].key)
    assert credentials.get(SCRAM_SHA_256, "u") is None
    assert credentials.users == {"u": {"SCRAM-SHA-512": 4096}}


def test_an_unknown_user_has_the_same_salt_at_each_gateway_and_every_time() -> None:
    secret = item(keys.SCRAM_SECRET, b"of the cluster")
    gateways = [taken(secret, secret=own) for own in (b"1", b"2")]
    found = {gateway.invented(SCRAM_SHA_256, "nobody").salt for gateway in gateways for _ in range(2)}
    assert len(found) == 1
    others = {gateways[0].invented(mechanism, user).salt for mechanism in MECHANISMS.values() for user in ("nobody", "another")}
    assert len(others) == 4


def test_an_invented_salt_looks_as_those_of_kafka_configs() -> None:
    for number in range(200):
        credential = taken().invented(SCRAM_SHA_256, str(number))
        assert len(credential.salt) in range(22, 27)
        assert credential.salt.isalnum()
        assert credential.salt == credential.salt.lower()
        assert (credential.iterations, len(credential.stored_key)) == (4096, 32)


def test_unknown_users_have_iterations_as_frequent_as_among_users_of_the_mechanism() -> None:
    few, many = replace(CREDENTIAL, iterations=4096), replace(CREDENTIAL, iterations=8192)
    credentials = taken()

    def seen(mechanism: str = SCRAM_SHA_256) -> Counter[int]:
        return Counter(credentials.invented(mechanism, f"nobody-{number}").iterations for number in range(1000))

    def give(user: str, credential: ScramCredential) -> None:
        credentials.take(item(keys.scram_credential(SCRAM_SHA_256, user), encoded(credential)))

    assert seen() == {4096: 1000}
    give("alice", many)
    assert seen() == {8192: 1000}
    assert seen(SCRAM_SHA_512) == {4096: 1000}, "that mechanism has no user"
    for user in ("bob", "carol", "dave"):
        give(user, few)
    assert seen() == seen()
    assert 200 <= seen()[8192] == 1000 - seen()[4096] <= 300
    give("alice", few)
    assert seen() == {4096: 1000}
    for user in ("alice", "bob", "carol", "dave", "nobody"):
        give("eve", many)
        credentials.remove(keys.scram_credential(SCRAM_SHA_256, user))
    assert seen() == {8192: 1000}


def test_an_unknown_user_whose_iterations_change_has_another_salt_as_after_a_change_of_password() -> None:
    before, after = taken(), taken(item(keys.scram_credential(SCRAM_SHA_256, "u"), encoded(replace(CREDENTIAL, iterations=8192))))
    first, second = [credentials.invented(SCRAM_SHA_256, "nobody") for credentials in (before, after)]
    assert (first.iterations, second.iterations) == (4096, 8192)
    assert first.salt != second.salt


@pytest.mark.parametrize("name", ["u", "Alice", "müller", "a b", "用户", "a,b=c", "ابجد"])
def test_a_name_that_saslprep_leaves_alone_is_prepared(name: str) -> None:
    assert is_prepared(name)


@pytest.mark.parametrize(
    "name",
    ["I\u00adX", "\u2168", "ª", "u\u0007", "a\u00a0b", "\u0627\u0031", "a\u0627", "\ue000", "\u0221", "\ud800"],
)
def test_a_name_that_saslprep_changes_or_forbids_is_not(name: str) -> None:
    assert not is_prepared(name)


async def test_no_image_reads_them() -> None:
    store = MemoryStore()
    await store.txn([], [Put(keys.scram_credential(SCRAM_SHA_256, "u"), encoded(CREDENTIAL)), Put(keys.SCRAM_SECRET, b"s")])
    assert (await store.range(keys.PREFIX)).items == ()
    assert len((await store.range(keys.SCRAM)).items) == 2
