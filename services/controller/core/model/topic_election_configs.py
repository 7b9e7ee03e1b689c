"""The topic configs that elections read."""

from libs.cluster.configs.resolve import NO_BROKER, effective_topic_value
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE


class TopicElectionConfigs:
    """The topic configs of one image. Each value is resolved once. `of` keeps the values while nothing that they depend on has
    changed."""

    __slots__ = ("_image", "_synced", "_unclean")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._synced: dict[bytes, bool] = {}
        self._unclean: dict[bytes, bool] = {}

    def of(self, image: ClusterImage) -> "TopicElectionConfigs":
        mine = self._image
        same = (
            image.overrides_by_resource is mine.overrides_by_resource
            and image.members(STORAGE) is mine.members(STORAGE)
            and image.topics_by_id is mine.topics_by_id
        )
        return self if same else TopicElectionConfigs(image)

    def synced(self, topic_id: bytes) -> bool:
        """Whether all nodes acknowledge only synced records. A node that does not may have lost acknowledged ones."""
        value = self._synced.get(topic_id)
        if value is None:
            value = self._synced[topic_id] = self._is_synced(topic_id)
        return value

    def unclean(self, topic_id: bytes) -> bool:
        """Whether a replica that is not in sync may lead if no other is left."""
        value = self._unclean.get(topic_id)
        if value is None:
            topic = self._image.topics_by_id[topic_id]
            value = bool(effective_topic_value(self._image, topic.name, "unclean.leader.election.enable"))
            self._unclean[topic_id] = value
        return value

    def _is_synced(self, topic_id: bytes) -> bool:
        image = self._image
        topic = image.topics_by_id[topic_id]
        if topic.internal:
            return True
        brokers: list[tuple[int, dict[str, str]]] = [(NO_BROKER, {})]
        brokers += [(node_id, member.configs) for node_id, member in image.members(STORAGE).items()]
        return all(
            effective_topic_value(image, topic.name, "durability", broker_id=node_id, static=static) == "synced"
            for node_id, static in brokers
        )
