"""The topics as groups see them, rebuilt only when an image changes what groups need."""

from collections.abc import Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.partition_table import TopicPartitions
from libs.cluster.records import Topic
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView


class Topics:
    """The current view. Give `follow` each image, and read `view`.

    Leaders and ISRs change all the time and do not count. Racks are those that nodes registered with, also while nodes are down.
    So only a replica that moves can move a consumer.
    """

    def __init__(self) -> None:
        self.view = TopicsView()
        self._image = ClusterImage()
        self._racks: Mapping[int, str] = {}

    def follow(self, image: ClusterImage) -> None:
        self._view(image)
        if self.view.restored_ms != image.history.restored_ms:
            self.view = replace(self.view, restored_ms=image.history.restored_ms)

    def _view(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        racks = self._racks
        if image.nodes is not before.nodes:
            racks = {node_id: node.rack for node_id, node in image.nodes.items() if node.rack}
        moved = racks != self._racks
        self._racks = racks
        if image.topics is before.topics and not moved and (not racks or image.partition_table is before.partition_table):
            return
        known = {} if moved else self.view.by_name
        views = [self._viewed(topic, before, known.get(name)) for name, topic in image.topics.items()]
        if self.view.by_name != {topic.name: topic for topic in views}:
            self.view = TopicsView.of(self.view.version + 1, views)

    def _viewed(self, topic: Topic, before: ClusterImage, known: TopicView | None) -> TopicView:
        topic_id = bytes.fromhex(topic.topic_id)
        table = self._image.partition_table.get(topic_id)
        same = known is not None and before.topics.get(topic.name) is topic
        if known is not None and same and (not self._racks or table is before.partition_table.get(topic_id)):
            return known
        return TopicView(topic_id, topic.name, topic.partitions, self._racks_of(table, topic.partitions))

    def _racks_of(self, table: TopicPartitions | None, partitions: int) -> tuple[frozenset[str], ...]:
        racks = self._racks
        if not racks or table is None:
            return ()
        states = [table.state(index) for index in range(partitions)]
        return tuple(
            [
                frozenset([racks[node] for node, _ in state.replicas if node in racks]) if state is not None else frozenset()
                for state in states
            ]
        )
