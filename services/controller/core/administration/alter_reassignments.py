"""What AlterPartitionReassignments (KIP-455) changes, and what it answers for what it does not. Codes and words are KRaft's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, PartitionState
from libs.rpc.contracts.controller import AlterReassignments, Reassignment, ReassignmentResult
from libs.wire.errors import ErrorCode
from services.controller.core.brokers import settle
from services.controller.core.decommissioning import leaving
from services.controller.core.elections import NO_LEADER, Question, Reach, elect_by_logs, unclean_candidates
from services.controller.core.lost_directories import NewPlaces
from services.controller.core.reassignment import (
    UncleanRevert,
    begun,
    drops_replicas,
    is_reassigning,
    reverted,
    without_added,
)
from services.controller.core.refusal import Refused
from services.controller.core.standing import LiveNode

Key = tuple[bytes, int]
Changed = list[tuple[bytes, int, PartitionState]]

OfTopic = Callable[[bytes], bool]
"""What a topic's configs say."""


@dataclass(frozen=True, slots=True)
class ReassignmentDecision:
    """Write `changed`, then answer `results`, which are in the order of the request."""

    changed: Changed
    results: tuple[ReassignmentResult, ...]


def revert_questions(
    image: ClusterImage, request: AlterReassignments, live: Mapping[int, LiveNode], synced: OfTopic, unclean: OfTopic
) -> dict[Key, Question]:
    """Whose logs are to be looked at first: where to cancel is to lose something, and that is allowed."""
    questions = {}
    for wanted in request.partitions:
        topic = image.topics.get(wanted.topic)
        if wanted.replicas is not None or topic is None or not 0 <= wanted.partition < topic.partitions:
            continue
        key = bytes.fromhex(topic.topic_id), wanted.partition
        stored = image.partition(*key)
        if stored is None or not unclean(key[0]):
            continue
        state = settle(stored, live, synced=synced(key[0]))
        if is_reassigning(state) and not without_added(state).isr:
            questions[key] = _revert_question(state, live)
    return questions


def alter_reassignments(
    image: ClusterImage,
    request: AlterReassignments,
    live: Mapping[int, LiveNode],
    synced: OfTopic,
    unclean: OfTopic,
    reaches: Mapping[Key, Mapping[InSync, Reach]] | None = None,
) -> ReassignmentDecision:
    """`reaches` answers `revert_questions`."""
    altering = _Altering(image, live, synced, unclean, request.allow_replication_factor_change, reaches or {})
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
        reaches: Mapping[Key, Mapping[InSync, Reach]],
    ) -> None:
        self._image = image
        self._live = live
        self._synced = synced
        self._unclean = unclean
        self._allow_factor_change = allow_factor_change
        self._leaving = leaving(image)
        self._reaches = reaches
        self._places = NewPlaces(image)
        self.changed: dict[Key, PartitionState] = {}

    def alter(self, wanted: Reassignment) -> None:
        topic = self._image.topics.get(wanted.topic)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}.")
        key = bytes.fromhex(topic.topic_id), wanted.partition
        stored = self._image.partition(*key) if 0 <= wanted.partition < topic.partitions else None
        if stored is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.partition}.")
        before = self.changed.get(key, stored)
        # Who died just now does not count: what is dropped must not be all that is left in sync.
        known = settle(before, self._live, synced=self._synced(key[0]))
        after = self._reverted(wanted, known, key) if wanted.replicas is None else self._begun(wanted.replicas, known)
        if after == known:
            return
        if drops_replicas(known, after):
            after = replace(after, leader_epoch=known.leader_epoch + 1)
        settled = settle(after, self._live, synced=self._synced(key[0]))
        leader_epoch = min(settled.leader_epoch, before.leader_epoch + 1)
        self.changed[key] = replace(settled, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1)

    def _reverted(self, wanted: Reassignment, state: PartitionState, key: Key) -> PartitionState:
        if not is_reassigning(state):
            raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        try:
            return reverted(state)
        except UncleanRevert:
            if self._unclean(key[0]):
                answers = self._reaches.get(key, {})
                elected = elect_by_logs(without_added(state), _revert_question(state, self._live), answers)
                if elected is not None:
                    return elected
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because it would require an "
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
        return self._places(node_id) if node_id in self._image.members(STORAGE) else ""


def _revert_question(state: PartitionState, live: Mapping[int, LiveNode]) -> Question:
    """Any of the original replicas that answers will do; the log that reaches furthest is taken."""
    leaderless = replace(without_added(state), leader=NO_LEADER)
    return Question(unclean_candidates(leaderless, live), all_of_them=False)
