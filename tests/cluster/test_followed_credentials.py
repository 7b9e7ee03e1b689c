"""SCRAM credentials on their way through etcd: the controller writes them, and gateways follow them through an outage."""

import asyncio

import pytest

from libs.cluster import keys
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.scram_credentials import SCRAM_SHA_256, ScramCredential, encoded
from libs.cluster.store import Delete, Put
from libs.rpc.contracts.controller import AlterScramCredentials, ScramDeletion, ScramUpsertion
from services.controller.administration.scram_credentials import change_scram_credentials
from services.gateway.peers.scram_credentials import CredentialFollower
from tests.cluster.conftest import EtcdServer
from tests.controller.running_controller import RunningController, running_controller
from tests.support.polling import until

SALT = b"sixteen bytes of"
CREDENTIAL = ScramCredential(SALT, b"stored", b"server", 4096)


async def change(running: RunningController, *, made: str = "", gone: str = "") -> None:
    deletions = (ScramDeletion(gone, 1),) if gone else ()
    upsertions = (ScramUpsertion(made, 1, 4096, SALT, b"stored", b"server"),) if made else ()
    request = AlterScramCredentials(deletions, upsertions)
    reply = await running.controller.administer(lambda own, term: change_scram_credentials(own, term, request))
    assert {result.error for result in reply.users} == {0}


def knows(follower: CredentialFollower, user: str) -> bool:
    return follower.current is not None and follower.current.get(SCRAM_SHA_256, user) == CREDENTIAL


async def test_a_user_reaches_each_gateway_through_etcd_and_stays_while_etcd_is_away(own_etcd: EtcdServer) -> None:
    stores = [EtcdStore((own_etcd.endpoint,)) for _ in range(3)]
    gateways = [CredentialFollower(store) for store in stores[1:]]
    async with running_controller(stores[0]) as running:
        await running.elected()
        for gateway in gateways:
            await gateway.start()
            assert gateway.current is not None
        unknown = {gateway.current.invented(SCRAM_SHA_256, "nobody") for gateway in gateways if gateway.current is not None}
        assert len(unknown) == 2, "the cluster has no user and no secret yet"
        await change(running, made="u")
        await until(lambda: all(knows(gateway, "u") for gateway in gateways))
        unknown = {gateway.current.invented(SCRAM_SHA_256, "nobody") for gateway in gateways if gateway.current is not None}
        assert len(unknown) == 1
        own_etcd.stop()
        await asyncio.sleep(0)
        assert all(knows(gateway, "u") for gateway in gateways)
        own_etcd.start()
        await until(lambda: running.controller.elected)
        await change(running, made="v")
        await until(lambda: all(knows(gateway, "v") and knows(gateway, "u") for gateway in gateways))
        await change(running, gone="u")
        await until(lambda: not any(knows(gateway, "u") for gateway in gateways))
    for gateway in gateways:
        await gateway.close()
    for store in stores:
        await store.close()


async def test_what_changed_during_a_gap_of_the_watch_is_known_after_it() -> None:
    store = MemoryStore()
    await store.txn([], [Put(keys.scram_credential(SCRAM_SHA_256, user), encoded(CREDENTIAL)) for user in ("u", "v")])
    follower = CredentialFollower(store)
    await follower.start()
    assert knows(follower, "u")
    await store.txn([], [Delete(keys.scram_credential(SCRAM_SHA_256, "u"))])
    await until(lambda: not knows(follower, "u") and knows(follower, "v"))
    await follower.close()
    await store.close()


async def test_a_gateway_that_starts_while_the_store_is_away_reads_them_later(
    own_etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.peers.scram_credentials.FIRST_S_MAX", 0.05)
    own_etcd.stop()
    store = EtcdStore((own_etcd.endpoint,))
    follower = CredentialFollower(store)
    await follower.start()
    assert follower.current is None
    own_etcd.start()
    await until(lambda: follower.current is not None)
    await follower.close()
    await store.close()
