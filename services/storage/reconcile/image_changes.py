"""The partitions about which an image differs from the one before it."""

from collections.abc import Iterator

from libs.cluster.image import ClusterImage
from services.storage.partition.partition import Key


def changed_keys(old: ClusterImage, new: ClusterImage) -> Iterator[Key]:
    """Partitions whose state, or whose topic's record, differs."""
    for change in new.partition_changes_since(old):
        yield change.topic_id, change.index
    if new.topics_by_id is old.topics_by_id:
        return
    for topic_id in {**old.topics_by_id, **new.topics_by_id}:
        before, after = old.topics_by_id.get(topic_id), new.topics_by_id.get(topic_id)
        if before is not after:
            for index in range(max(topic.partitions for topic in (before, after) if topic is not None)):
                yield topic_id, index
