"""Leader elections: Kafka's four selectors, one for networks that are cut in part, and the two elections that may lose records.

A selector gives the node that is to lead, out of the ISR and in assignment order, or None. Replicas that a reassignment removes
come last. Selectors leave epochs alone: `led_by` moves a state on to its new leader.

No selector looks at a log, since every ISR member has all acknowledged records. If that is in doubt, `last_resort` names the
replicas to survey, and `most_complete` chooses the longest log.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from libs.cluster.records import InSync, PartitionState
from libs.lean_dataclass import dataclass
from services.controller.core.model.replica_health import LiveNode, ReplicaHealth, has_directory, health_of, went_back

NO_LEADER: Final = -1
NO_INCARNATION: Final = 0
"""The incarnation of ISR members that nobody vouches for (`doubt.py`), and of no leader."""


def assignment_order(state: PartitionState) -> list[int]:
    """Node ids in assignment order, those that a reassignment removes last."""
    ids = [replica.node_id for replica in state.replicas]
    if not state.removing:
        return ids
    return [n for n in ids if n not in state.removing] + [n for n in ids if n in state.removing]


def electable(state: PartitionState, live: Mapping[int, LiveNode]) -> list[InSync]:
    """ISR members that may lead now, the best first: those that most processes reach, then assignment order."""
    by_node = {member.node_id: member for member in state.isr}
    ordered = [by_node[node_id] for node_id in assignment_order(state) if node_id in by_node]
    healths = [(member, health_of(state, member, live, synced=False)) for member in ordered]
    steady = [member for member, health in healths if health is ReplicaHealth.STEADY]
    steady.sort(key=lambda member: processes_cut_off(state, member.node_id, live))
    return steady + [member for member, health in healths if health is ReplicaHealth.STOPPING]


def offline(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader of a partition without one: the first electable member."""
    return next(iter(electable(state, live)), None)


def controlled_shutdown(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader after one that stops: the first electable member that does not stop. None: the present leader stays while it
    lives."""
    return next((member for member in electable(state, live) if not live[member.node_id].stopping), None)


def reassigned(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader after one that is removed: the first electable replica that stays, or None."""
    return next((member for member in electable(state, live) if member.node_id not in state.removing), None)


def preferred(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The preferred leader. None: it may not lead now, or fewer processes would reach it than the present one."""
    first = assignment_order(state)[0]
    if state.leader in live and processes_cut_off(state, first, live) > processes_cut_off(state, state.leader, live):
        return None
    return next((m for m in electable(state, live) if m.node_id == first and not live[first].stopping), None)


def reached_by_more(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader after one that some process cannot reach: the first electable member that more processes reach, or None."""
    cut_off = processes_cut_off(state, state.leader, live)
    return next((m for m in electable(state, live)[:1] if processes_cut_off(state, m.node_id, live) < cut_off), None)


def processes_cut_off(state: PartitionState, node_id: int, live: Mapping[int, LiveNode]) -> int:
    """The number of processes that a leader on this node would be cut off from: callers, and other members of the ISR."""
    node = live.get(node_id)
    if node is None or node.is_reached_by_all:
        return 0
    return node.callers_cut + sum(member.node_id in node.peers_cut for member in state.isr)


def leader_of(state: PartitionState, live: Mapping[int, LiveNode]) -> InSync | None:
    """The leader that a partition should have: the present one while it may lead, else the choice of the selector
    for its case."""
    leader = InSync(state.leader, state.leader_incarnation)
    if leader not in state.isr:
        return offline(state, live)
    health = health_of(state, leader, live, synced=False)
    if health is ReplicaHealth.STOPPING:
        return controlled_shutdown(state, live) or leader
    if health is not ReplicaHealth.STEADY:
        return offline(state, live)
    return reached_by_more(state, live) or leader


def led_by(state: PartitionState, leader: InSync | None) -> PartitionState:
    """`state` with this leader. Another leader, or another incarnation of it, starts a leader epoch. The partition epoch is left
    alone."""
    leader = leader or InSync(NO_LEADER, NO_INCARNATION)
    if leader == InSync(state.leader, state.leader_incarnation):
        return state
    return replace(state, leader=leader.node_id, leader_incarnation=leader.incarnation, leader_epoch=state.leader_epoch + 1)


@dataclass(frozen=True, slots=True)
class ReplicaLogEnd:
    """The end of a replica's log, as its node reports it."""

    latest_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogEndQuery:
    """The replicas whose logs decide an election. `all_required`: the election waits until each has answered."""

    candidates: tuple[InSync, ...]
    all_required: bool


def log_end_query(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool, unclean: bool) -> LogEndQuery | None:
    """The query for the log ends that an election needs. None while there is a leader, or a replica with all acknowledged records
    may come back.

    `unclean`: the topic's `unclean.leader.election.enable`. It is for replicas that are lost. After the store was restored, none
    may be, so all are waited for; an operator may still elect uncleanly.
    """
    if unclean and not is_doubted(state) and (candidates := unclean_candidates(state, live)):
        return LogEndQuery(candidates, all_required=False)
    if candidates := last_resort(state, live, synced=synced):
        return LogEndQuery(candidates, all_required=True)
    return None


def is_doubted(state: PartitionState) -> bool:
    """Whether the state is of a metadata store that was restored, and nobody has been elected since (`doubt.py`)."""
    return bool(state.isr) and all(member.incarnation == NO_INCARNATION for member in state.isr)


def last_resort(state: PartitionState, live: Mapping[int, LiveNode], *, synced: bool) -> tuple[InSync, ...]:
    """All in-sync replicas, if all live again and each may have lost records; else ().

    An absent one may be the one that lost nothing, so it is waited for. If one went back to an older snapshot, a replica outside
    the ISR may have more: then all replicas are waited for that may have records.
    """
    if state.leader != NO_LEADER:
        return ()
    in_sync = [member.node_id for member in state.isr]
    if any(health_of(state, member, live, synced=synced) is not ReplicaHealth.DOUBTFUL for member in state.isr):
        return ()
    if not any(went_back(state, node_id, live[node_id]) for node_id in in_sync):
        return tuple([InSync(node_id, live[node_id].incarnation) for node_id in in_sync])
    holders = [node_id for node_id in assignment_order(state) if node_id in in_sync or node_id not in state.adding]
    if not all(node_id in live and has_directory(state, node_id, live[node_id]) for node_id in holders):
        return ()
    return tuple([InSync(node_id, live[node_id].incarnation) for node_id in holders])


def unclean_candidates(state: PartitionState, live: Mapping[int, LiveNode]) -> tuple[InSync, ...]:
    """Every live replica with its directory, in sync or not; () while there is a leader."""
    if state.leader != NO_LEADER:
        return ()
    with_log = [
        InSync(node_id, live[node_id].incarnation)
        for node_id in assignment_order(state)
        if node_id in live and has_directory(state, node_id, live[node_id])
    ]
    return tuple(candidate for candidate in with_log if candidate not in state.withdrawn)


def elect_by_logs(state: PartitionState, query: LogEndQuery, log_ends: Mapping[InSync, ReplicaLogEnd]) -> PartitionState | None:
    """The state with the replica with the longest log as leader; None while it is not known."""
    known = {candidate: log_ends[candidate] for candidate in query.candidates if candidate in log_ends}
    if query.all_required and len(known) < len(query.candidates):
        return None
    best = most_complete(state, known)
    if best is None:
        return None
    elected = elected_uncleanly(state, best)
    # After all replicas of a restored store have answered, nothing that was acknowledged is missing.
    restored = query.all_required and is_doubted(state)
    # No log has a later epoch, but where the metadata store went back in time.
    epoch = max(elected.leader_epoch, 1 + max(end.latest_epoch for end in known.values()))
    return replace(elected, leader_epoch=epoch, recovering=not restored)


def most_complete(state: PartitionState, log_ends: Mapping[InSync, ReplicaLogEnd]) -> InSync | None:
    """The replica with the highest (epoch, end offset). Assignment order decides between equals."""
    order = assignment_order(state)
    candidates = sorted(log_ends, key=lambda candidate: order.index(candidate.node_id))
    return max(candidates, key=lambda c: (log_ends[c].latest_epoch, log_ends[c].end_offset), default=None)


def elected_uncleanly(state: PartitionState, leader: InSync) -> PartitionState:
    """The state with `leader` as the only in-sync replica. Records that it lacks are lost."""
    led = led_by(state, leader)
    return replace(led, isr=(leader,), recovering=True, withdrawn=(), partition_epoch=state.partition_epoch + 1)
