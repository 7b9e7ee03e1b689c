"""What AlterPartitionReassignments (KIP-455) changes, and what it answers for what it does not. Codes and words are KRaft's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState
from libs.rpc.contracts.controller import AlterReassignments, Reassignment, ReassignmentResult
from libs.wire.errors import ErrorCode
from services.controller.core.brokers import settle
from services.controller.core.elections import led_by
from services.controller.core.placement import Load, Node, choose_directory
from services.controller.core.reassignment import UncleanRevert, begun, drops_replicas, is_reassigning, reverted
from services.controller.core.refusal import Refused
from services.controller.core.standing import LiveNode

Changed = list[tuple[bytes, int, PartitionState]]

OfTopic = Callable[[bytes], bool]
"""What a topic's configs say."""


@dataclass(frozen=True, slots=True)
class ReassignmentDecision:
    """Write `changed`, then answer `results`, which are in the order of the request."""

    changed: Changed
    results: tuple[ReassignmentResult, ...]


def alter_reassignments(
    image: ClusterImage, request: AlterReassignments, live: Mapping[int, LiveNode], synced: OfTopic, unclean: OfTopic
) -> ReassignmentDecision:
    altering = _Altering(image, live, synced, unclean, request.allow_replication_factor_change)
    results = []
    for wanted in request.partitions:
        try:
            altering.alter(wanted)
        except Refused as refusal:
            results.append(ReassignmentResult(wanted.topic, wanted.partition, refusal.error, refusal.message))
        else:
            results.append(ReassignmentResult(wanted.topic, wanted.partition, ErrorCode.NONE))
    return ReassignmentDecision([(*key, state) for key, state in altering.changed.items()], tuple(results))


class _Altering:
    """Of one request, whose items are taken one after the other."""

    def __init__(
        self,
        image: ClusterImage,
        live: Mapping[int, LiveNode],
        synced: OfTopic,
        unclean: OfTopic,
        allow_factor_change: bool,
    ) -> None:
        self._image = image
        self._live = live
        self._synced = synced
        self._unclean = unclean
        self._allow_factor_change = allow_factor_change
        self._load: Load | None = None
        self.changed: dict[tuple[bytes, int], PartitionState] = {}

    def alter(self, wanted: Reassignment) -> None:
        topic = self._image.topics.get(wanted.topic)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}.")
        key = bytes.fromhex(topic.topic_id), wanted.partition
        stored = self._image.partition(*key) if 0 <= wanted.partition < topic.partitions else None
        if stored is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.partition}.")
        before = self.changed.get(key, stored)
        after = self._reverted(wanted, before, key) if wanted.replicas is None else self._begun(wanted.replicas, before)
        if after == before:
            return
        if drops_replicas(before, after) or (after.recovering and not before.recovering):
            after = replace(after, leader_epoch=before.leader_epoch + 1)
        settled = settle(after, self._live, synced=self._synced(key[0]))
        if settled.leader_epoch > before.leader_epoch + 1:
            settled = replace(settled, leader_epoch=before.leader_epoch + 1)
        self.changed[key] = replace(settled, partition_epoch=before.partition_epoch + 1)

    def _reverted(self, wanted: Reassignment, state: PartitionState, key: tuple[bytes, int]) -> PartitionState:
        if not is_reassigning(state):
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        try:
            before = reverted(state, self._live, unclean=self._unclean(key[0]))
        except UncleanRevert:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because it would require an "
                "unclean leader election.",
            ) from None
        return led_by(before, before.isr[0]) if before.recovering and not state.recovering else before

    def _begun(self, target: tuple[int, ...], state: PartitionState) -> PartitionState:
        self._check(target)
        factor = state.replication_factor if not is_reassigning(state) else len(state.replicas) - len(state.removing)
        if not self._allow_factor_change and len(target) != factor:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {factor} to {len(target)}",
            )
        return begun(state, target, self._directory)

    def _check(self, target: tuple[int, ...]) -> None:
        def refused(why: str) -> Refused:
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {why}")

        if not target:
            raise refused("an empty replica list.")
        previous = None
        for node_id in sorted(target):
            if node_id not in self._image.nodes and node_id not in self._live:
                raise refused(f"broker {node_id}, but no such broker is registered.")
            if node_id == previous:
                raise refused(f"the broker {node_id} more than once.")
            previous = node_id

    def _directory(self, node_id: int) -> str:
        member = self._image.members(STORAGE).get(node_id)
        if member is None:
            return ""
        if self._load is None:
            image = self._image
            self._load = Load.of(s for id_ in image.topics_by_id for s in image.partitions_of(id_) if s is not None)
        return choose_directory(Node(node_id, member.rack, member.host_id, member.log_dirs), self._load)
