"""What a change of `durability` leaves behind: records that were acknowledged from page caches before it.

A topic may be `replicated` for a moment only. Its leaders acknowledge from page caches meanwhile, though no reconciliation of the
controller may fall into that moment. So before an override of `durability` changes, each topic that is not `synced` is marked as
`lax` anew. The mark raises the partition epoch, which ends reports of leaders from before: they are true of records of that time.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from services.controller.core.model.topic_election_configs import TopicElectionConfigs
from services.controller.core.topics.alter_configs import Alteration

OVERRIDES: Final = {"topic": "durability", "broker": "log.durability"}


def marked_lax(image: ClusterImage, alterations: Sequence[Alteration]) -> list[tuple[bytes, int, PartitionState]]:
    """The partitions to mark before these alterations are written."""
    changing = {(each.kind, each.resource.name) for each in alterations if _changes_durability(image, each)}
    if not changing:
        return []
    everywhere = any(kind == "broker" for kind, _ in changing)
    configs = TopicElectionConfigs(image)
    return [
        (topic_id, index, replace(state, lax=True, partition_epoch=state.partition_epoch + 1))
        for topic_id, topic in image.topics_by_id.items()
        if (everywhere or ("topic", topic.name) in changing) and not configs.synced(topic_id)
        for index, state in enumerate(image.partitions_of(topic_id))
        if state is not None
    ]


def _changes_durability(image: ClusterImage, alteration: Alteration) -> bool:
    name = OVERRIDES.get(alteration.kind)
    if name is None or alteration.values is None:
        return False
    return image.overrides(alteration.kind, alteration.resource.name).get(name) != alteration.values.get(name)
