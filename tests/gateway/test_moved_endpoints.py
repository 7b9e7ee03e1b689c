"""Moved endpoints: a client that may know a former address of a broker is notified once."""

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, Listener, Member, NodeRecord
from libs.cluster.store import KeyValue, RangeResult
from services.gateway.core.addresses import Addresses
from services.gateway.peers.moved_endpoints import REMEMBERED_S, MovedEndpoints

HOST, PEER, NAME = "10.0.0.1", "10.0.0.1:4000", "PLAINTEXT"


def addresses(*ports: int) -> Addresses:
    """The addresses of one broker, with a gateway at each port."""
    records: dict[str, object] = {keys.node(1): NodeRecord(1)}
    for number, port in enumerate(ports, 1):
        records[keys.member(GATEWAY, number)] = Member(GATEWAY, number, 1, "", listeners=(Listener(NAME, "gateway", port),))
    items = tuple(KeyValue(key, encode(record), 1, 1, 0) for key, record in sorted(records.items()))
    return Addresses(ClusterImage.from_range(RangeResult(items, 1)))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_group_hears_once_that_its_broker_moved() -> None:
    moved_endpoints = MovedEndpoints(Clock())
    assert not moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "a")
    moved_endpoints.note(addresses(1000))
    assert moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "a")
    assert not moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "a")
    assert moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "b")
    assert moved_endpoints.must_notify(addresses(2000), 1, "10.0.0.2", "10.0.0.2:4000", NAME, "a")


def test_each_member_of_a_group_on_one_host_hears_of_the_move() -> None:
    moved_endpoints = MovedEndpoints(Clock())
    moved_endpoints.note(addresses(1000))
    notified = [
        moved_endpoints.must_notify(addresses(2000), 1, HOST, f"{HOST}:{port}", NAME, "a") for port in (4000, 4001, 4000, 4001)
    ]
    assert notified == [True, True, False, False]


def test_a_broker_that_did_not_move_is_not_hinted() -> None:
    moved_endpoints = MovedEndpoints(Clock())
    moved_endpoints.note(addresses(1000))
    assert not moved_endpoints.must_notify(addresses(1000), 1, HOST, PEER, NAME, "a")


def test_nobody_knew_a_broker_that_nobody_served() -> None:
    moved_endpoints = MovedEndpoints(Clock())
    moved_endpoints.note(addresses())
    assert not moved_endpoints.must_notify(addresses(1000), 1, HOST, PEER, NAME, "a")


def test_each_move_is_hinted() -> None:
    moved_endpoints = MovedEndpoints(Clock())
    moved_endpoints.note(addresses(1000))
    assert moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "a")
    moved_endpoints.note(addresses(2000))
    assert moved_endpoints.must_notify(addresses(1000), 1, HOST, PEER, NAME, "a")


def test_after_a_while_nobody_hears_of_a_move() -> None:
    clock = Clock()
    moved_endpoints = MovedEndpoints(clock)
    moved_endpoints.note(addresses(1000))
    clock.now += REMEMBERED_S + 1
    assert not moved_endpoints.must_notify(addresses(2000), 1, HOST, PEER, NAME, "a")
