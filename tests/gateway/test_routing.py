"""Routing: leaders and addresses in one image."""

from collections import Counter
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, Listener, Member, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult, WatchBatch, WatchEvent
from services.gateway.core.addresses import Addresses, broker_ids
from services.gateway.core.routing import Routes

TOPIC_ID = b"\1" * 16


def image(records: dict[str, object]) -> ClusterImage:
    items = tuple(KeyValue(key, encode(record), 1, 1, 0) for key, record in sorted(records.items()))
    return ClusterImage.from_range(RangeResult(items, 1))


def gateway(node_id: int, host_id: str = "", rack: str = "", name: str = "PLAINTEXT") -> tuple[str, Member]:
    listener = Listener(name, f"gateway-{node_id}", 9000 + 100 * node_id)
    return keys.member("gateway", node_id), Member("gateway", node_id, 1, host_id, rack=rack, listeners=(listener,))


def storage(node_id: int, host_id: str = "", rack: str = "") -> tuple[str, Member]:
    return keys.member("storage", node_id), Member("storage", node_id, 1, host_id, rack=rack)


def changed(at: ClusterImage, key: str, record: object) -> ClusterImage:
    revision = at.revision + 1
    return at.apply(WatchBatch((WatchEvent(key, encode(record), revision, revision),), revision))


def host_for(at: ClusterImage, node_id: int, client: str = "10.0.0.1", listener: str = "PLAINTEXT") -> str | None:
    chosen = Addresses(at).of(node_id, client, listener)
    return chosen.host if chosen is not None else None


def hosts(at: Routes, *node_ids: int) -> set[str | None]:
    listeners = [at.addresses.of(node_id, "10.0.0.1", "PLAINTEXT") for node_id in node_ids]
    return {listener.host if listener is not None else None for listener in listeners}


def test_a_gateway_on_the_nodes_host_comes_first_then_one_in_its_zone() -> None:
    at = image(
        dict(
            [
                gateway(1, "h1", "a"),
                gateway(2, "h2", "b"),
                gateway(3, "h3", "c"),
                storage(1, "h2", "a"),
                storage(2, "h9", "c"),
            ]
        )
    )
    assert host_for(at, 1) == "gateway-2"
    assert host_for(at, 2) == "gateway-3"


def test_a_client_gets_the_same_answer_from_everybody_and_clients_spread() -> None:
    at = image(dict([gateway(1), gateway(2), gateway(3), *(storage(node) for node in (1, 2, 3))]))
    chosen = Counter(host_for(at, node, f"10.0.{n}.1") for n in range(100) for node in (1, 2, 3))
    assert set(chosen) == {"gateway-1", "gateway-2", "gateway-3"}
    assert min(chosen.values()) > 50


def test_the_death_of_a_gateway_moves_only_its_own_clients() -> None:
    three, two = (image(dict([storage(7), *(gateway(node) for node in alive)])) for alive in ((1, 2, 3), (1, 2)))
    for client in (f"10.0.{n}.1" for n in range(100)):
        before = host_for(three, 7, client)
        assert before == "gateway-3" or host_for(two, 7, client) == before


@pytest.mark.parametrize(("nodes", "gateways"), [(2, 2), (3, 2), (4, 3), (7, 3), (100, 6)])
def test_every_client_finds_brokers_at_every_gateway_and_as_many_at_each(nodes: int, gateways: int) -> None:
    """A client that has all brokers at one gateway loses them all with it, and then knows no other gateway."""
    at = Addresses(image(dict([gateway(n) for n in range(1, gateways + 1)] + [storage(n) for n in range(1, nodes + 1)])))
    for client in (f"10.0.{n}.1" for n in range(20)):
        brokers_by_listener = Counter(at.of(node, client, "PLAINTEXT") for node in range(1, nodes + 1))
        assert len(brokers_by_listener) == gateways
        assert max(brokers_by_listener.values()) - min(brokers_by_listener.values()) <= 1


def test_the_death_of_a_gateway_leaves_most_broker_ids_of_the_others_where_they_are() -> None:
    nodes = [storage(n) for n in range(1, 31)]
    three, two = (Addresses(image(dict(nodes + [gateway(n) for n in alive]))) for alive in ((1, 2, 3), (1, 2)))
    moved = 0
    for client in (f"10.0.{n}.1" for n in range(50)):
        for node in range(1, 31):
            before, after = three.of(node, client, "PLAINTEXT"), two.of(node, client, "PLAINTEXT")
            moved += before is not None and before.host != "gateway-3" and before != after
    assert moved < 50 * 30 / 20


def test_addresses_are_dealt_again_when_members_change_and_not_for_other_changes() -> None:
    before = image(dict([gateway(1), gateway(2), storage(1)]))
    topic = changed(before, keys.topic("t"), Topic("t", TOPIC_ID.hex(), 2))
    routes = Routes(before)
    assert Routes(topic, routes).addresses is routes.addresses
    grown = changed(topic, *gateway(3))
    assert Routes(grown, routes).addresses is not routes.addresses


def test_the_address_of_a_node_stays_where_it_is_when_the_node_dies() -> None:
    """Clients are connected there, and Metadata still names the broker."""
    gateways = [gateway(1, "h1", "a"), gateway(2, "h2", "b"), gateway(3, "h3", "b")]
    nodes = [(keys.node(n), NodeRecord(n)) for n in (1, 2, 3)]
    alive = Routes(image(dict([*gateways, *nodes, storage(1, "h1", "a"), storage(2, "h9", "b"), storage(3, "h3", "b")])))
    for client in (f"10.0.{n}.1" for n in range(20)):
        before = [alive.addresses.of(node_id, client, "PLAINTEXT") for node_id in (1, 2, 3)]
        dead = Routes(image(dict([*gateways, *nodes, storage(3, "h3", "b")])), alive)
        assert [dead.addresses.of(node_id, client, "PLAINTEXT") for node_id in (1, 2, 3)] == before
        later = Routes(image(dict([*gateways, *nodes])), dead)
        assert [later.addresses.of(node_id, client, "PLAINTEXT") for node_id in (1, 2, 3)] == before
    elsewhere = Routes(image(dict([*gateways, *nodes, storage(1, "h3", "b")])), later)
    assert hosts(elsewhere, 1) == {"gateway-3"}
    without_gateway = Routes(image(dict([*gateways[1:], *nodes])), later)
    assert hosts(without_gateway, 1) <= {"gateway-2", "gateway-3"}
    unregistered = Routes(image(dict([*gateways, *nodes[1:]])), later)
    assert hosts(unregistered, 1) == {None}


def test_while_no_gateway_is_a_member_the_former_ones_are_named() -> None:
    """A metadata store that was stopped lets all leases expire at once. librdkafka does not recover from an answer without
    brokers."""
    nodes = [storage(1), storage(2)]
    before = Routes(image(dict([gateway(1), gateway(2), *nodes])))
    without = Routes(image(dict(nodes)), before)
    still = Routes(image(dict([storage(3), *nodes])), without)
    back = Routes(image(dict([gateway(2), *nodes])), still)
    assert [hosts(at, 1, 2) for at in (without, still)] == [hosts(before, 1, 2)] * 2
    assert hosts(before, 1, 2) == {"gateway-1", "gateway-2"}
    assert hosts(still, 3) <= {"gateway-1", "gateway-2"}
    assert hosts(back, 1, 2) == {"gateway-2"}


def test_where_the_only_member_has_ended_the_former_others_are_named() -> None:
    before = Routes(image(dict([gateway(1), gateway(2), storage(1), storage(2)])))
    without = Routes(image(dict([gateway(1), storage(1), storage(2)])), before, frozenset({(1, 1)}))
    assert hosts(without, 1, 2) == {"gateway-2"}
    assert hosts(Routes(image(dict([storage(1)])), Routes(image(dict([gateway(1), storage(1)])))), 1) == {"gateway-1"}


def test_only_gateways_with_the_clients_listener_count() -> None:
    at = image(dict([gateway(1, name="INTERNAL"), gateway(2), storage(1)]))
    assert host_for(at, 1, listener="INTERNAL") == "gateway-1"
    assert host_for(at, 1, listener="SASL") is None


def test_nodes_that_ever_registered_keep_their_ports() -> None:
    at = image({keys.node(4): NodeRecord(4), **dict([storage(7)])})
    assert broker_ids(at) == {4, 7}


def test_routes_name_the_leader_of_each_partition_and_none_where_there_is_no_state() -> None:
    state = PartitionState((Replica(3, ""),), 3, 1, 5, 6, (InSync(3, 1),))
    routes = Routes(image({keys.topic("t"): Topic("t", TOPIC_ID.hex(), 2), keys.partition(TOPIC_ID, 1): state}))
    topic = routes.topic("t")
    assert topic is not None
    assert topic is routes.topic_by_id(TOPIC_ID)
    assert topic.partition(1) == (3, 5)
    assert [topic.partition(index) for index in (0, 2, -1)] == [None] * 3
    assert routes.topic("u") is None
    assert routes.topic_by_id(b"\2" * 16) is None


def node(node_id: int, *broker_ids: int, host_id: str = "h1") -> dict[str, Member]:
    """A storage node and a gateway in one process."""
    key, front = gateway(node_id, host_id)
    return {key: replace(front, broker_ids=broker_ids or (node_id,)), **dict([storage(node_id, host_id)])}


def test_a_node_that_shares_its_process_with_a_gateway_has_its_port_there() -> None:
    at = image(node(1) | node(2) | node(3))
    for client in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        assert [host_for(at, node_id, client) for node_id in (1, 2, 3)] == ["gateway-1", "gateway-2", "gateway-3"]


def test_a_port_that_was_taken_over_belongs_to_its_own_node_again_once_that_is_back() -> None:
    assert host_for(image(node(1, 1, 2) | dict([storage(2)])), 2) == "gateway-1"
    assert host_for(image(node(1, 1, 2) | node(2)), 2) == "gateway-2"


def test_a_dead_node_keeps_its_address_while_no_other_gateway_has_its_port() -> None:
    both = image(node(1) | node(2))
    one = image(node(1) | dict([storage(2, "h1")]))
    known = Addresses(one, former=Addresses(both)).of(2, "10.0.0.1", "PLAINTEXT")
    assert known is not None
    assert known.host == "gateway-2"


def test_a_gateway_with_the_ports_of_all_stands_for_the_brokers_that_no_node_has() -> None:
    at = image(node(1, host_id="h1") | dict([gateway(9, "h9"), storage(1, "h1"), storage(2, "h1")]))
    assert (host_for(at, 1), host_for(at, 2)) == ("gateway-1", "gateway-9")
