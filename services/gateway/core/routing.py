"""Who leads which partition, from one cluster image. No I/O."""

from typing import NamedTuple

from libs.cluster.image import ClusterImage
from services.gateway.core.addresses import NOBODY, Addresses, Gone


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
    """Topic routes of one image, made when first asked for: a hot topic costs one dict lookup a request.

    `former` are those of the image before, from which the addresses are taken where they are still the same, or where no gateway
    is a member. `gone` are gateways that have ended, though they are members still.
    """

    __slots__ = ("_by_id", "_by_name", "addresses", "image")

    def __init__(self, image: ClusterImage, former: "Routes | None" = None, gone: Gone = NOBODY) -> None:
        self.image = image
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
