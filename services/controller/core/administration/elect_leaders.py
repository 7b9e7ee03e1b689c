"""Which leaders an operator's ElectLeaders (KIP-460) changes, and which the cluster changes itself to keep leadership even.

Codes and words are KRaft's. Without a list of partitions those that need no election are left out of the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from libs.rpc.contracts.controller import PREFERRED, UNCLEAN, ElectedLeader, ElectLeaders
from libs.wire.errors import ErrorCode
from services.controller.core.elections import (
    Question,
    Reach,
    assignment_order,
    elect_by_logs,
    led_by,
    preferred,
    unclean_candidates,
)
from services.controller.core.refusal import Refused
from services.controller.core.standing import LiveNode

Key = tuple[bytes, int]
Changed = list[tuple[bytes, int, PartitionState]]

NOT_NEEDED = "Leader election not needed for topic partition."
PREFERRED_AWAY = "The preferred leader was not available."
NOBODY_ELIGIBLE = "Eligible topic partition leaders are not available."


@dataclass(frozen=True, slots=True)
class LeaderDecision:
    """Write `changed`, then answer `results`, which are in the order of the request, if it named partitions."""

    changed: Changed
    results: tuple[ElectedLeader, ...]


def unclean_questions(image: ClusterImage, request: ElectLeaders, live: Mapping[int, LiveNode]) -> dict[Key, Question]:
    """Whose logs are to be looked at first."""
    if request.election_type != UNCLEAN:
        return {}
    questions = {}
    for name, index in _asked(image, request):
        found = _find(image, name, index)
        if not isinstance(found, Refused):
            topic_id, state = found
            if candidates := unclean_candidates(state, live):
                questions[topic_id, index] = Question(candidates, all_of_them=False)
    return questions


def elect_leaders(
    image: ClusterImage,
    request: ElectLeaders,
    live: Mapping[int, LiveNode],
    reaches: Mapping[Key, Mapping[InSync, Reach]],
) -> LeaderDecision:
    """`reaches` answers `unclean_questions`. Raises Refused for an election type that nobody knows."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    changed: dict[Key, PartitionState] = {}
    results = []
    for name, index in _asked(image, request):
        try:
            found = _find(image, name, index)
            if isinstance(found, Refused):
                raise found
            topic_id, state = found
            if request.election_type == PREFERRED:
                elected = _preferred(state, live)
            else:
                elected = _unclean(state, live, reaches.get((topic_id, index), {}))
        except Refused as refusal:
            if request.partitions is not None or refusal.error != ErrorCode.ELECTION_NOT_NEEDED:
                results.append(ElectedLeader(name, index, refusal.error, refusal.message))
            continue
        changed[topic_id, index] = elected
        results.append(ElectedLeader(name, index, ErrorCode.NONE))
    return LeaderDecision([(*key, state) for key, state in changed.items()], tuple(results))


def overdue_preferred(image: ClusterImage, live: Mapping[int, LiveNode], percentage: int) -> Changed:
    """Leaderships that go back to preferred replicas: those of nodes that miss more than `percentage` of what is theirs."""
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


def _asked(image: ClusterImage, request: ElectLeaders) -> Iterator[tuple[str, int]]:
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


def _unclean(state: PartitionState, live: Mapping[int, LiveNode], reaches: Mapping[InSync, Reach]) -> PartitionState:
    if state.leader >= 0:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    elected = elect_by_logs(state, Question(unclean_candidates(state, live), all_of_them=False), reaches)
    if elected is None:
        raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, NOBODY_ELIGIBLE)
    return elected


def _moved(state: PartitionState, leader: InSync) -> PartitionState:
    return replace(led_by(state, leader), partition_epoch=state.partition_epoch + 1)
