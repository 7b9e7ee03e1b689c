"""Where things are, from one cluster image: a partition's leader, and the gateway that stands for a broker id. No I/O."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE, Listener, Member


class PartitionRoute(NamedTuple):
    """`leader` -1: nobody leads it now."""

    leader: int
    leader_epoch: int


class TopicRoute:
    """A topic as the data path needs it. `partitions` has None where the image knows no state yet."""

    __slots__ = ("internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, internal: bool, partitions: tuple[PartitionRoute | None, ...]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.internal = internal
        self.partitions = partitions

    def partition(self, index: int) -> PartitionRoute | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Routes:
    """Topic routes of one image, made when first asked for: a hot topic costs one dict lookup a request."""

    __slots__ = ("_by_id", "_by_name", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self._by_name: dict[str, TopicRoute] = {}
        self._by_id: dict[bytes, TopicRoute] = {}

    def topic(self, name: str) -> TopicRoute | None:
        route = self._by_name.get(name)
        if route is None:
            topic = self.image.topics.get(name)
            return None if topic is None else self._make(name, bytes.fromhex(topic.topic_id), topic.internal)
        return route

    def topic_by_id(self, topic_id: bytes) -> TopicRoute | None:
        route = self._by_id.get(topic_id)
        if route is None:
            topic = self.image.topics_by_id.get(topic_id)
            return None if topic is None else self._make(topic.name, topic_id, topic.internal)
        return route

    def _make(self, name: str, topic_id: bytes, internal: bool) -> TopicRoute:
        states = self.image.partitions_of(topic_id)
        partitions = tuple(None if state is None else PartitionRoute(state.leader, state.leader_epoch) for state in states)
        route = TopicRoute(name, topic_id, internal, partitions)
        self._by_name[name] = self._by_id[topic_id] = route
        return route


def broker_endpoint(image: ClusterImage, node_id: int, client_host: str, listener: str) -> Listener | None:
    """The listener at which this client should reach this broker id; its address there is `port_base + node_id`.

    Gateways on the storage node's host come first (records then never cross a wire between the two), then those in its zone,
    then all. Within the first group that has any, rendezvous hashing over (client host, broker id) picks one: the same client
    gets the same answer whichever gateway it asks, clients spread over the gateways, and the death of one moves only its own.
    The client's port has no say: each of its connections would get another answer.
    """
    gateways = [
        (member, found) for member in image.members(GATEWAY).values() for found in member.listeners if found.name == listener
    ]
    if len(gateways) > 1:
        gateways = _nearest(gateways, image.members(STORAGE).get(node_id))
    if len(gateways) > 1:
        return max(gateways, key=lambda pair: _weight(pair[0].node_id, client_host, node_id))[1]
    return gateways[0][1] if gateways else None


def _nearest(gateways: list[tuple[Member, Listener]], node: Member | None) -> list[tuple[Member, Listener]]:
    if node is None:
        return gateways
    same_host = [pair for pair in gateways if pair[0].host_id and pair[0].host_id == node.host_id]
    same_zone = [pair for pair in gateways if pair[0].rack and pair[0].rack == node.rack]
    return same_host or same_zone or gateways


def _weight(gateway_id: int, client_host: str, node_id: int) -> bytes:
    return hashlib.blake2b(f"{gateway_id}/{client_host}/{node_id}".encode(), digest_size=8).digest()


def broker_ids(image: ClusterImage) -> set[int]:
    """Every storage node that ever registered: its port stays open while it is down, so that clients find it again."""
    return _ids(image.nodes) | _ids(image.members(STORAGE))


def _ids(ids: Iterable[int]) -> set[int]:
    return set(ids)
