"""What a topic's configs say of elections."""

from libs.cluster.configs.resolve import NO_BROKER, effective_topic_value
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE


class TopicRules:
    """Of one image. Each answer is looked up once; `of` keeps them while nothing that they come from has changed."""

    __slots__ = ("_image", "_synced", "_unclean")

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._synced: dict[bytes, bool] = {}
        self._unclean: dict[bytes, bool] = {}

    def of(self, image: ClusterImage) -> "TopicRules":
        mine = self._image
        same = (
            image.overrides_by_resource is mine.overrides_by_resource
            and image.members(STORAGE) is mine.members(STORAGE)
            and image.topics_by_id is mine.topics_by_id
        )
        return self if same else TopicRules(image)

    def synced(self, topic_id: bytes) -> bool:
        """Whether all nodes acknowledge only what is on disk: one that need not may have lost what it acknowledged."""
        found = self._synced.get(topic_id)
        if found is None:
            found = self._synced[topic_id] = self._is_synced(topic_id)
        return found

    def unclean(self, topic_id: bytes) -> bool:
        """Whether a replica that is not in sync may lead when no other is left."""
        found = self._unclean.get(topic_id)
        if found is None:
            topic = self._image.topics_by_id[topic_id]
            found = bool(effective_topic_value(self._image, topic.name, "unclean.leader.election.enable"))
            self._unclean[topic_id] = found
        return found

    def _is_synced(self, topic_id: bytes) -> bool:
        image = self._image
        topic = image.topics_by_id[topic_id]
        if topic.internal:
            return True
        asked: list[tuple[int, dict[str, str]]] = [(NO_BROKER, {})]
        asked += [(node_id, member.configs) for node_id, member in image.members(STORAGE).items()]
        return all(
            effective_topic_value(image, topic.name, "durability", broker_id=node_id, static=static) == "synced"
            for node_id, static in asked
        )
