"""A start without the metadata store: the gateway serves with an image that a peer lent."""

import asyncio
from typing import Any, cast

import pytest

from libs.cluster import image_follower as follower_module
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import GATEWAY, Member
from libs.cluster.store import Put
from libs.runtime.peers import Peers
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.exchange.request_context import RequestContext
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import produce_body
from tests.support.polling import until

PRODUCE_ONE = produce_body(9, [(TOPIC, [(0, bytes(build_batch([Record(None, b"one")])))])])
CONTEXT = RequestContext(0, "", 0, 1, "somewhere", "PLAINTEXT")


class Lender:
    """A peer with the content of the rig's store, which the gateway does not reach."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.noted: list[ImageFollower] = []

    async def newest(self) -> ClusterImage:
        return ClusterImage.from_range(await self._rig.store.range(keys.PREFIX))

    def note_members_of(self, follower: ImageFollower) -> None:
        self.noted.append(follower)


@pytest.fixture
async def cut_off(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(follower_module, "STORE_TIMEOUT_S", 0.02)
    rig.gateways_store = rig.store.peer()
    rig.gateways_store.unavailable = True
    rig.peers = cast("Peers", Lender(rig))
    await rig.put(keys.CLUSTER_ID, "the-cluster")
    return rig


async def test_it_serves_before_it_is_registered_and_registers_when_the_store_is_back(cut_off: Rig) -> None:
    gateway = await cut_off.start()
    revision = gateway.image.revision
    assert gateway.ready() == (True, f"ready, with a peer's metadata of revision {revision}")
    client = await cut_off.client(1)
    (produced,) = await client.produce(9, PRODUCE_ONE)
    assert produced.error == 0
    assert cut_off.store.keyspace.get(keys.member(GATEWAY, 1)) is None
    cut_off.gateways_store.unavailable = False
    await until(lambda: 1 in gateway.image.members(GATEWAY))
    assert gateway.ready() == (True, "ready")
    (produced,) = await client.produce(9, PRODUCE_ONE)
    assert produced.error == 0
    assert not cut_off.deaths


async def test_it_names_itself_where_whoever_lent_the_image_knows_of_no_gateway(cut_off: Rig) -> None:
    gateway = await cut_off.start()
    assert gateway.broker_endpoint(2, CONTEXT) == ("127.0.0.1", cut_off.port_base + 2)
    other = Member(GATEWAY, 2, 7, "other", listeners=gateway.listeners.own)
    await cut_off.put(keys.member(GATEWAY, 2), other)
    cut_off.gateways_store.unavailable = False
    await until(lambda: len(gateway.image.members(GATEWAY)) == 2)
    assert gateway.broker_endpoint(2, CONTEXT) is not None


async def test_it_stops_at_once_though_it_could_never_register(cut_off: Rig) -> None:
    gateway = await cut_off.start()
    async with asyncio.timeout(2):
        await gateway.stop()
    cut_off.gateway = None
    assert not cut_off.deaths


async def test_it_gives_way_to_a_later_life_that_registered_meanwhile(cut_off: Rig) -> None:
    """Its own registration replaces an older one. Then the image shows it the later incarnation."""
    gateway = await cut_off.start()
    cut_off.gateways_store.unavailable = False
    await until(lambda: 1 in gateway.image.members(GATEWAY))
    await cut_off.store.txn([], [Put(keys.member(GATEWAY, 1), encode(Member(GATEWAY, 1, 99, "other")))])
    await until(lambda: bool(cut_off.deaths))


async def test_it_waits_for_the_store_as_long_as_no_peer_has_an_image(cut_off: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    lender: Any = cut_off.peers
    requested = asyncio.Event()

    async def nothing() -> None:
        requested.set()

    monkeypatch.setattr(lender, "newest", nothing)
    starting = asyncio.create_task(cut_off.start())
    await requested.wait()
    assert cut_off.gateway is not None
    assert not cut_off.gateway.ready()[0]
    cut_off.gateways_store.unavailable = False
    await starting
    assert cut_off.gateway.ready() == (True, "ready")
    assert len(lender.noted) == 1
