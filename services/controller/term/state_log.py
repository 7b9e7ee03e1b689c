"""The DEBUG lines about partition states: each election and ISR change when it is decided, and when it is written."""

import logging
from collections.abc import Iterable, Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState
from libs.telemetry.logs import fields
from services.controller.core.elections.state_reasons import healths, why_changed
from services.controller.core.model.replica_health import LiveNode, live_nodes

log = logging.getLogger("elections")

Change = tuple[bytes, int, PartitionState]


def decided(image: ClusterImage, changes: Iterable[Change], *, why: str = "", live: Mapping[int, LiveNode] | None = None) -> None:
    """`image` is the one that the decision rests on. `why` comes before what the states tell. `live`: the nodes that live, where
    the caller knows more of them than the image."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    live = live if live is not None else live_nodes(image.members(STORAGE))
    for topic_id, index, after in changes:
        before, topic = image.partition(topic_id, index), image.topics_by_id.get(topic_id)
        if before is None or topic is None:
            continue
        is_election = after.leader_epoch != before.leader_epoch
        reasons = "; ".join(filter(None, (why, why_changed(before, after, live))))
        log.debug(
            "election decided" if is_election else "ISR decided",
            extra=fields(
                topic=topic.name,
                partition=index,
                why=reasons,
                leader=after.leader,
                was_leader=before.leader,
                epoch=after.leader_epoch,
                partition_epoch=after.partition_epoch,
                isr=[member.node_id for member in after.isr],
                was_isr=[member.node_id for member in before.isr],
                health=healths(before, live),
            ),
        )


def written(count: int, revision: int) -> None:
    """The store and the image have these states. `revision`: of the last one."""
    if count:
        log.debug("partition states written", extra=fields(partitions=count, revision=revision))
