"""Fenced brokers: a broker id stays in Metadata for a while after its node died, and its port stays open."""

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, NodeRecord
from libs.cluster.store import Delete, KeyValue, Outcome, RangeResult
from libs.wire.messages import describe_cluster
from libs.wire.primitives import Writer
from services.gateway.core.fenced_brokers import FencedBrokers
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import DESCRIBE_CLUSTER, RawClient
from tests.gateway.metadata_requests import brokers
from tests.support.polling import until


def image(registered: set[int], alive: set[int]) -> ClusterImage:
    records: dict[str, object] = {keys.node(node_id): NodeRecord(node_id) for node_id in registered}
    records |= {keys.member(STORAGE, node_id): Member(STORAGE, node_id, 1, "") for node_id in alive}
    items = tuple(KeyValue(key, encode(record), 1, 1, 0) for key, record in sorted(records.items()))
    return ClusterImage.from_range(RangeResult(items, 1))


def listed(fenced: FencedBrokers, now_s: float) -> set[int]:
    return {node_id for node_id in range(1, 5) if fenced.is_listed(node_id, now_s)}


def test_a_broker_is_listed_for_a_bounded_time_after_its_member_vanished() -> None:
    fenced = FencedBrokers(10.0)
    fenced.follow(image({1, 2}, {1, 2}), 100.0)
    assert listed(fenced, 100.0) == set()
    fenced.follow(image({1, 2}, {1}), 105.0)
    fenced.follow(image({1, 2, 3}, {1, 3}), 112.0)
    assert [listed(fenced, now_s) for now_s in (105.0, 114.9, 115.0)] == [{2}, {2}, set()]


def test_a_broker_that_came_back_is_listed_as_long_when_it_dies_again() -> None:
    fenced = FencedBrokers(10.0)
    for now_s, alive in ((100.0, {1}), (108.0, {1, 2}), (109.0, {1})):
        fenced.follow(image({1, 2}, alive), now_s)
        assert listed(fenced, now_s) == {1, 2} - alive
    assert [listed(fenced, now_s) for now_s in (118.9, 119.0)] == [{2}, set()]


def test_a_broker_that_is_unregistered_is_listed_no_more() -> None:
    fenced = FencedBrokers(10.0)
    fenced.follow(image({1, 2}, {1}), 100.0)
    fenced.follow(image({1}, {1}), 101.0)
    assert listed(fenced, 101.0) == set()


def test_a_gateway_that_starts_later_counts_from_its_start() -> None:
    """Other gateways may still name a broker that died before, and clients ask all gateways."""
    fenced = FencedBrokers(10.0)
    fenced.follow(image({1, 2}, {1}), 100.0)
    assert [listed(fenced, now_s) for now_s in (100.0, 109.9, 110.0)] == [{2}, {2}, set()]


async def delete(rig: Rig, key: str) -> None:
    assert (await rig.store.txn([], [Delete(key)])).outcome is Outcome.OK


async def alive(client: RawClient) -> set[int]:
    writer = Writer()
    describe_cluster.write_request(writer, describe_cluster.DescribeClusterRequest(), 0)
    client.ask(DESCRIBE_CLUSTER, 0, bytes(writer.buffer))
    _, reader = await client.answer(DESCRIBE_CLUSTER, 0)
    return {broker.broker_id for broker in describe_cluster.read_response(reader, 0).brokers}


async def test_a_dead_broker_stays_in_metadata_its_port_serves_and_descriptions_leave_it_out(rig: Rig) -> None:
    gateway = await rig.start()
    client, connected = await rig.client(1), await rig.client(2)
    both = {node_id: rig.port_base + node_id for node_id in (1, 2)}
    assert await brokers(client) == both
    await delete(rig, keys.member(STORAGE, 2))
    await until(lambda: 2 not in gateway.image.members(STORAGE))
    for asked in (client, connected, await rig.client(2)):
        assert await brokers(asked) == both
        assert await alive(asked) == {1}


async def test_a_dead_broker_leaves_metadata_when_its_time_is_over_and_its_port_stays(rig: Rig) -> None:
    gateway = await rig.start(fenced_broker_s_max=0.3)
    client = await rig.client(1)
    await delete(rig, keys.member(STORAGE, 2))
    await until(lambda: not gateway.lists_fenced_broker(2) and 2 not in gateway.image.members(STORAGE))
    assert await brokers(client) == {1: rig.port_base + 1}
    assert await brokers(await rig.client(2)) == {1: rig.port_base + 1}
    await rig.register(rig.nodes[2])
    await until(lambda: 2 in gateway.image.members(STORAGE))
    assert set(await brokers(client)) == {1, 2}


async def test_an_unregistered_broker_leaves_metadata_at_once_and_its_port_closes(rig: Rig) -> None:
    gateway = await rig.start()
    client = await rig.client(1)
    await delete(rig, keys.member(STORAGE, 2))
    await delete(rig, keys.node(2))
    await until(lambda: 2 not in gateway.image.nodes)
    assert await brokers(client) == {1: rig.port_base + 1}
    assert gateway.debug()["broker_ids"] == [1]
