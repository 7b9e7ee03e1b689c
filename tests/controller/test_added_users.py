"""Users that a cluster gets that is there: as its first ones would be, beside what it has."""

from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.scram_credentials import users_of
from libs.cluster.store import Put
from services.controller.recovery.store_contents import RecoveryRefused
from services.controller.recovery.users import add_users

FORMER = "SCRAM-SHA-512=[name=admin,password=of-a-stranger]\nSCRAM-SHA-256=[name=alice,password=of-alice]\n"
OWN = "SCRAM-SHA-512=[name=admin,password=own]\n"
ADMIN = ("SCRAM-SHA-512", "admin")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users"


def written(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


async def begun() -> MemoryStore:
    store = MemoryStore()
    await store.txn([], [Put(keys.CLUSTER_ID, encode("a-cluster"))])
    return store


async def test_a_cluster_without_users_gets_them_with_a_secret(file: Path) -> None:
    store = await begun()
    written(file, OWN)
    assert await add_users(store, str(file)) == f"cluster a-cluster: set the passwords of admin from {file}"
    assert await store.get(keys.SCRAM_SECRET) is not None
    assert [*users_of((await store.range(keys.SCRAM)).items)] == [ADMIN]


async def test_a_password_that_a_stranger_may_have_set_is_replaced_and_others_are_told(file: Path) -> None:
    store = await begun()
    written(file, FORMER)
    await add_users(store, str(file))
    before, secret = users_of((await store.range(keys.SCRAM)).items), await store.get(keys.SCRAM_SECRET)
    written(file, OWN)
    told = (await add_users(store, str(file))).splitlines()
    assert told[1:] == ["  users that were there before, and may log in: alice"]
    after = users_of((await store.range(keys.SCRAM)).items)
    assert after[ADMIN] != before[ADMIN]
    assert after[("SCRAM-SHA-256", "alice")] == before[("SCRAM-SHA-256", "alice")]
    assert await store.get(keys.SCRAM_SECRET) == secret


async def test_a_store_without_a_cluster_is_left_to_its_controllers(file: Path) -> None:
    store = MemoryStore()
    written(file, OWN)
    assert "etcd holds no cluster yet" in await add_users(store, str(file))
    assert not (await store.range(keys.SCRAM)).items


async def test_a_file_that_cannot_be_used_changes_nothing(file: Path) -> None:
    store = await begun()
    written(file, "SCRAM-SHA-512=[name=admin]\n")
    with pytest.raises(RecoveryRefused, match=r"line 1: expected one of password="):
        await add_users(store, str(file))
    assert not (await store.range(keys.SCRAM)).items
