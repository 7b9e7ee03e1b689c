"""The leader of each partition, from one cluster image. No I/O."""

from typing import NamedTuple

from libs.cluster.image import ClusterImage
from services.gateway.core.addresses import NONE_ENDED, Addresses, EndedGateways


class PartitionRoute(NamedTuple):
    """A partition's leader; -1: it has none now."""

    leader: int
    leader_epoch: int


class TopicRoute:
    """A topic as the data path needs it. `partitions` has None where the image has no state yet."""

    __slots__ = ("internal", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, internal: bool, partitions: tuple[PartitionRoute | None, ...]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.internal = internal
        self.partitions = partitions

    def partition(self, index: int) -> PartitionRoute | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Routes:
    """The topic routes of one image, made at their first use: a hot topic costs one dict lookup a request.

    `generation` rises with each image of this process. Whoever has looked something up here keeps that number, and not the
    routes, which hold a whole image. `former` are the routes of the image before. Their addresses are kept where they are still
    valid, or where no gateway is a member. `gone` are gateways that have ended and are still members.
    """

    __slots__ = ("_by_id", "_by_name", "addresses", "generation", "image")

    def __init__(self, image: ClusterImage, former: "Routes | None" = None, gone: EndedGateways = NONE_ENDED) -> None:
        self.image = image
        self.generation: int = former.generation + 1 if former is not None else 0
        before = former.addresses if former is not None else None
        same = before is not None and before.serves(image, gone)
        self.addresses: Addresses = before if before is not None and same else Addresses(image, gone, before)
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
