"""Leader changes that an operator requests (ElectLeaders, KIP-460), and returns of leadership to preferred replicas.

Error codes and messages are KRaft's. If the request names no partitions, the answer omits those that need no election.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import PREFERRED, UNCLEAN, ElectedLeader, ElectLeaders
from libs.wire.errors import ErrorCode
from services.controller.core.elections.leader_election import (
    LogEndQuery,
    ReplicaLogEnd,
    assignment_order,
    elect_by_logs,
    led_by,
    preferred,
    unclean_candidates,
)
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import LiveNode

Key = tuple[bytes, int]
Changed = list[tuple[bytes, int, PartitionState]]

NOT_NEEDED = "Leader election not needed for topic partition."
PREFERRED_AWAY = "The preferred leader was not available."
NOBODY_ELIGIBLE = "Eligible topic partition leaders are not available."


@dataclass(frozen=True, slots=True)
class LeaderDecision:
    """The decision about one request. Write `changed`, then answer `results`. They are in the order of the request if it names
    partitions."""

    changed: Changed
    results: tuple[ElectedLeader, ...]


def unclean_queries(image: ClusterImage, request: ElectLeaders, live: Mapping[int, LiveNode]) -> dict[Key, LogEndQuery]:
    """Queries for the log ends that decide unclean elections."""
    if request.election_type != UNCLEAN:
        return {}
    queries = {}
    for name, index in _requested(image, request):
        partition = _find(image, name, index)
        if not isinstance(partition, Refused):
            topic_id, state = partition
            if candidates := unclean_candidates(state, live):
                queries[topic_id, index] = LogEndQuery(candidates, all_required=False)
    return queries


def elect_leaders(
    image: ClusterImage,
    request: ElectLeaders,
    live: Mapping[int, LiveNode],
    log_ends: Mapping[Key, Mapping[InSync, ReplicaLogEnd]],
) -> LeaderDecision:
    """The decision about one request. `log_ends` answers `unclean_queries`. Raises Refused for an unknown election type."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    changed: dict[Key, PartitionState] = {}
    results = []
    for name, index in _requested(image, request):
        try:
            partition = _find(image, name, index)
            if isinstance(partition, Refused):
                raise partition
            topic_id, state = partition
            if request.election_type == PREFERRED:
                elected = _preferred(state, live)
            else:
                elected = _unclean(state, live, log_ends.get((topic_id, index), {}))
        except Refused as refusal:
            if request.partitions is not None or refusal.error != ErrorCode.ELECTION_NOT_NEEDED:
                results.append(ElectedLeader(name, index, refusal.error, refusal.message))
            continue
        changed[topic_id, index] = elected
        results.append(ElectedLeader(name, index, ErrorCode.NONE))
    return LeaderDecision([(*key, state) for key, state in changed.items()], tuple(results))


def overdue_preferred(image: ClusterImage, live: Mapping[int, LiveNode], percentage: int) -> Changed:
    """Leaderships that return to preferred replicas: those of nodes that lack more than `percentage` of their leaderships."""
    theirs: dict[int, list[tuple[Key, PartitionState]]] = {}
    missed: dict[int, int] = {}
    for topic_id, index, state in image.states():
        first = assignment_order(state)[0]
        theirs.setdefault(first, []).append(((topic_id, index), state))
        missed[first] = missed.get(first, 0) + (state.leader != first)
    changed = []
    for node_id in sorted(theirs):
        if missed[node_id] * 100 > percentage * len(theirs[node_id]):
            for (topic_id, index), state in theirs[node_id]:
                leader = preferred(state, live) if state.leader != node_id else None
                if leader is not None:
                    changed.append((topic_id, index, _moved(state, leader)))
    return changed


def _requested(image: ClusterImage, request: ElectLeaders) -> Iterator[tuple[str, int]]:
    if request.partitions is not None:
        yield from request.partitions
        return
    for name, topic in image.topics.items():
        for index in range(topic.partitions):
            yield name, index


def _find(image: ClusterImage, name: str, index: int) -> tuple[bytes, PartitionState] | Refused:
    topic = image.topics.get(name)
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    topic_id = bytes.fromhex(topic.topic_id)
    state = image.partition(topic_id, index) if 0 <= index < topic.partitions else None
    if state is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return topic_id, state


def _preferred(state: PartitionState, live: Mapping[int, LiveNode]) -> PartitionState:
    if state.leader == assignment_order(state)[0]:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    leader = preferred(state, live)
    if leader is None:
        raise Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, PREFERRED_AWAY)
    return _moved(state, leader)


def _unclean(state: PartitionState, live: Mapping[int, LiveNode], log_ends: Mapping[InSync, ReplicaLogEnd]) -> PartitionState:
    if state.leader >= 0:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    elected = elect_by_logs(state, LogEndQuery(unclean_candidates(state, live), all_required=False), log_ends)
    if elected is None:
        raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, NOBODY_ELIGIBLE)
    return elected


def _moved(state: PartitionState, leader: InSync) -> PartitionState:
    return replace(led_by(state, leader), partition_epoch=state.partition_epoch + 1)
