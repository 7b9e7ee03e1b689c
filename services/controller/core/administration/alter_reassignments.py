"""AlterPartitionReassignments (KIP-455): the changes that it makes, and the answers for those that it refuses. Codes and messages
are KRaft's."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, PartitionState
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import AlterReassignments, Reassignment, ReassignmentResult
from libs.wire.errors import ErrorCode
from services.controller.core.directories.lost_directories import NewDirectories
from services.controller.core.elections.leader_election import (
    NO_LEADER,
    LogEndQuery,
    ReplicaLogEnd,
    elect_by_logs,
    unclean_candidates,
)
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import LiveNode
from services.controller.core.partitions.partition_reconciler import reconcile
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.core.reassignment.reassignment import (
    UncleanRevert,
    begun,
    drops_replicas,
    is_reassigning,
    reverted,
    without_added,
)

Key = tuple[bytes, int]
Changed = list[tuple[bytes, int, PartitionState]]

OfTopic = Callable[[bytes], bool]
"""A config of the topic with that id."""


@dataclass(frozen=True, slots=True)
class ReassignmentDecision:
    """The decision about one request. Write `changed`, then answer `results`, which are in the order of the request."""

    changed: Changed
    results: tuple[ReassignmentResult, ...]


def revert_queries(
    image: ClusterImage, request: AlterReassignments, live: Mapping[int, LiveNode], synced: OfTopic, unclean: OfTopic
) -> dict[Key, LogEndQuery]:
    """Queries for the log ends that decide cancellations. They exist only where a cancellation loses records and unclean
    elections are allowed."""
    queries = {}
    for item in request.partitions:
        topic = image.topics.get(item.topic)
        if item.replicas is not None or topic is None or not 0 <= item.partition < topic.partitions:
            continue
        key = bytes.fromhex(topic.topic_id), item.partition
        stored = image.partition(*key)
        if stored is None or not unclean(key[0]):
            continue
        state = reconcile(stored, live, synced=synced(key[0]))
        if is_reassigning(state) and not without_added(state).isr:
            queries[key] = _revert_query(state, live)
    return queries


def alter_reassignments(
    image: ClusterImage,
    request: AlterReassignments,
    live: Mapping[int, LiveNode],
    synced: OfTopic,
    unclean: OfTopic,
    log_ends: Mapping[Key, Mapping[InSync, ReplicaLogEnd]] | None = None,
) -> ReassignmentDecision:
    """The decision about one request. `log_ends` answers `revert_queries`."""
    altering = _Alterations(image, live, synced, unclean, request.allow_replication_factor_change, log_ends or {})
    results = []
    for item in request.partitions:
        try:
            altering.alter(item)
        except Refused as refusal:
            results.append(ReassignmentResult(item.topic, item.partition, refusal.error, refusal.message))
        else:
            results.append(ReassignmentResult(item.topic, item.partition, ErrorCode.NONE))
    return ReassignmentDecision([(*key, state) for key, state in altering.changed.items()], tuple(results))


class _Alterations:
    """The decision about one request in the making. Its items are decided one after the other."""

    def __init__(
        self,
        image: ClusterImage,
        live: Mapping[int, LiveNode],
        synced: OfTopic,
        unclean: OfTopic,
        allow_factor_change: bool,
        log_ends: Mapping[Key, Mapping[InSync, ReplicaLogEnd]],
    ) -> None:
        self._image = image
        self._live = live
        self._synced = synced
        self._unclean = unclean
        self._allow_factor_change = allow_factor_change
        self._leaving = leaving(image)
        self._log_ends = log_ends
        self._new_directories = NewDirectories(image)
        self.changed: dict[Key, PartitionState] = {}

    def alter(self, item: Reassignment) -> None:
        topic = self._image.topics.get(item.topic)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {item.topic}.")
        key = bytes.fromhex(topic.topic_id), item.partition
        stored = self._image.partition(*key) if 0 <= item.partition < topic.partitions else None
        if stored is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {item.topic}:{item.partition}.")
        before = self.changed.get(key, stored)
        # A node that died just now does not count: the replicas that are dropped must not be the only ones in sync.
        known = reconcile(before, self._live, synced=self._synced(key[0]))
        after = self._reverted(item, known, key) if item.replicas is None else self._begun(item.replicas, known)
        if after == known:
            return
        if drops_replicas(known, after):
            after = replace(after, leader_epoch=known.leader_epoch + 1)
        reconciled = reconcile(after, self._live, synced=self._synced(key[0]))
        leader_epoch = min(reconciled.leader_epoch, before.leader_epoch + 1)
        self.changed[key] = replace(reconciled, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)

    def _reverted(self, item: Reassignment, state: PartitionState, key: Key) -> PartitionState:
        if not is_reassigning(state):
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        try:
            return reverted(state)
        except UncleanRevert:
            if self._unclean(key[0]):
                answers = self._log_ends.get(key, {})
                elected = elect_by_logs(without_added(state), _revert_query(state, self._live), answers)
                if elected is not None:
                    return elected
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {item.topic}:{item.partition} because it would require an "
                "unclean leader election.",
            ) from None

    def _begun(self, target: tuple[int, ...], state: PartitionState) -> PartitionState:
        self._check(target)
        self._check_stay(target, state)
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

    def _check_stay(self, target: tuple[int, ...], state: PartitionState) -> None:
        there = {replica.node_id for replica in state.replicas}
        for node_id in sorted(self._leaving.intersection(target) - there):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {node_id}, which is being decommissioned.",
            )

    def _directory(self, node_id: int) -> str:
        return self._new_directories(node_id) if node_id in self._image.members(STORAGE) else ""


def _revert_query(state: PartitionState, live: Mapping[int, LiveNode]) -> LogEndQuery:
    """The query for a cancellation. Any original replica's answer will do; the longest log is chosen."""
    leaderless = replace(without_added(state), leader=NO_LEADER)
    return LogEndQuery(unclean_candidates(leaderless, live), all_required=False)
