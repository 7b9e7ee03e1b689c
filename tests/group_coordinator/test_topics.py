"""The view of topics for groups. It changes with topics, their partitions and the racks of their replicas, and with no other."""

from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, Member, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.store import WatchBatch, WatchEvent
from services.group_coordinator.metadata.topics import Topics

ID = {name: bytes([number]) * 16 for number, name in enumerate("abc", 1)}
STATE = PartitionState((Replica(1, ""), Replica(2, "")), 1, 1, 0, 0, (InSync(1, 1),))


class Cluster:
    """Writes keys, one revision each, and shows every image to a `Topics`."""

    def __init__(self) -> None:
        self.topics = Topics()
        self.image = ClusterImage()

    def put(self, key: str, record: object | None) -> int:
        """The version of the view afterwards."""
        revision = self.image.revision + 1
        event = WatchEvent(key, encode(record) if record is not None else None, revision, revision)
        self.image = self.image.apply(WatchBatch((event,), revision))
        self.topics.follow(self.image)
        return self.topics.view.version

    def topic(self, name: str, partitions: int = 1) -> int:
        for index in range(partitions):
            self.put(keys.partition(ID[name], index), STATE)
        return self.put(keys.topic(name), Topic(name, ID[name].hex(), partitions))

    def node(self, node_id: int, rack: str) -> int:
        return self.put(keys.node(node_id), NodeRecord(node_id, (), rack))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_topics_come_grow_and_go(cluster: Cluster) -> None:
    assert cluster.topics.view.version == 0
    assert cluster.topic("a") == 1
    assert cluster.topic("b", 3) == 2
    view = cluster.topics.view
    assert (view.by_name["b"].partitions, view.by_id[ID["b"]].name, view.by_name["b"].racks) == (3, "b", ())
    assert cluster.topic("b", 4) == 3
    assert cluster.put(keys.topic("b"), None) == 4
    assert list(cluster.topics.view.by_name) == ["a"]


def test_a_topic_that_is_made_anew_is_another(cluster: Cluster) -> None:
    cluster.topic("a")
    assert cluster.put(keys.topic("a"), Topic("a", ID["b"].hex(), 1)) == 2
    assert list(cluster.topics.view.by_id) == [ID["b"]]


def test_a_change_that_groups_do_not_see_makes_no_new_view(cluster: Cluster) -> None:
    cluster.node(1, "east")
    version = cluster.topic("a")
    before = cluster.topics.view
    assert cluster.put(keys.partition(ID["a"], 0), replace(STATE, leader=2, leader_epoch=5, isr=(InSync(2, 1),))) == version
    assert cluster.put(keys.member(STORAGE, 1), Member(STORAGE, 1, 3, "host", rack="east")) == version
    assert cluster.put(keys.member(STORAGE, 1), None) == version, "a node that is down keeps its rack"
    assert cluster.put(keys.config("topic", "a"), {"values": {}}) == version
    assert cluster.topics.view is before


def test_racks_are_those_of_the_replicas(cluster: Cluster) -> None:
    version = cluster.topic("a", 2)
    assert cluster.node(1, "east") == version + 1
    assert cluster.topics.view.by_name["a"].racks == (frozenset({"east"}), frozenset({"east"}))
    assert cluster.node(2, "west") == version + 2
    assert cluster.node(3, "") == version + 2
    moved = replace(STATE, replicas=(Replica(2, ""), Replica(3, "")))
    assert cluster.put(keys.partition(ID["a"], 1), moved) == version + 3
    assert cluster.topics.view.by_name["a"].racks == (frozenset({"east", "west"}), frozenset({"west"}))


def test_only_what_changed_is_made_anew(cluster: Cluster) -> None:
    cluster.node(1, "east")
    cluster.topic("a", 2)
    cluster.topic("b")
    before = cluster.topics.view.by_name["a"]
    cluster.topic("c")
    assert cluster.topics.view.by_name["a"] is before
