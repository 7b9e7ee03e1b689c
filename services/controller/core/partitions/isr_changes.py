"""Decisions on ISR proposals of leaders (AlterPartition), and on replicas that their nodes withdraw.

The checks and their order are KRaft's (ReplicationControlManager.alterPartition), with incarnations for broker epochs. A proposal
is compared with the leader epoch and partition epoch that its leader acted on. One that the state already holds was applied
before, and its answer was lost.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, PartitionState
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import AlteredPartition, AlterPartitions, NewIsr, Withdraw
from libs.wire.errors import ErrorCode
from services.controller.core.elections.leader_election import electable
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import LiveNode, may_join
from services.controller.core.partitions.partition_reconciler import reconcile, shrinks_to

Changed = list[tuple[bytes, int, PartitionState]]

Synced = Callable[[bytes], bool]
"""Whether the topic with that id acknowledges only synced records."""


@dataclass(frozen=True, slots=True)
class IsrDecision:
    """The decision about one request. Write `changed`, then answer `results`, which are in the order of the request."""

    changed: Changed
    results: tuple[AlteredPartition, ...]


def require_registered(image: ClusterImage, node_id: int, incarnation: int) -> None:
    """Raises Refused with STALE_BROKER_EPOCH unless that incarnation of the node is registered."""
    member = image.members(STORAGE).get(node_id)
    if member is None or member.incarnation != incarnation:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is not registered with incarnation {incarnation}")


def alter_partitions(
    image: ClusterImage,
    request: AlterPartitions,
    live: Mapping[int, LiveNode],
    synced: Synced,
    in_doubt: Collection[tuple[bytes, int]] = (),
    suspected: Collection[int] = (),
) -> IsrDecision:
    """The decision about one request. Raises Refused with STALE_BROKER_EPOCH for a caller of another incarnation.

    `in_doubt` are partitions of which an earlier write may still be applied. A leader that is refused drops its proposal. So if a
    proposal that was accepted before is refused now, the partition epoch rises, and the earlier write can no longer be applied.

    `suspected` are nodes that may be dead. If they alone remained in an ISR, the partition would wait for them, although others
    have all their records.
    """
    require_registered(image, request.node_id, request.incarnation)
    changed: dict[tuple[bytes, int], PartitionState] = {}
    results = []
    for proposal in request.partitions:
        key = proposal.topic_id, proposal.partition
        state = image.partition(*key) if proposal.topic_id in image.topics_by_id else None
        if state is None:
            results.append(AlteredPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        state = changed.get(key, state)
        isr = tuple(InSync(*member) for member in proposal.isr)
        error = _refusal(state, proposal, isr, InSync(request.node_id, request.incarnation), live)
        if not error and shrinks_to(state, isr, suspected):
            error = ErrorCode.INELIGIBLE_REPLICA
        hardened = proposal.durable and state.lax and proposal.partition_epoch == state.partition_epoch
        if not error and hardened and not synced(proposal.topic_id):
            hardened = False
            if set(isr) == set(state.isr):
                error = ErrorCode.INELIGIBLE_REPLICA  # not yet: some node may acknowledge records before it syncs them
        if error == ErrorCode.INELIGIBLE_REPLICA and key in in_doubt:
            state = changed[key] = replace(state, partition_epoch=state.partition_epoch + 1)
        if not error and (hardened or set(isr) != set(state.isr)):
            before = replace(state, lax=False) if hardened else state
            state = changed[key] = _with_isr(before, isr, live, synced=synced(proposal.topic_id))
            if state.leader != request.node_id:
                error = ErrorCode.NEW_LEADER_ELECTED  # the proposal is applied all the same
        results.append(answered(error, state))
    return IsrDecision([(*key, state) for key, state in changed.items()], tuple(results))


def answered(error: ErrorCode, state: PartitionState) -> AlteredPartition:
    isr = tuple((member.node_id, member.incarnation) for member in state.isr)
    return AlteredPartition(error, state.leader, state.leader_epoch, state.partition_epoch, isr)


def _refusal(
    state: PartitionState, proposal: NewIsr, isr: tuple[InSync, ...], caller: InSync, live: Mapping[int, LiveNode]
) -> ErrorCode:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the caller saw a newer state: this controller is behind
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if caller != (state.leader, state.leader_incarnation):
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < state.partition_epoch and set(isr) != set(state.isr):
        return ErrorCode.INVALID_UPDATE_VERSION
    nodes = [member.node_id for member in isr]
    if len(set(nodes)) < len(nodes) or not {replica.node_id for replica in state.replicas}.issuperset(nodes) or caller not in isr:
        return ErrorCode.INVALID_REQUEST
    if any(member not in state.isr and not may_join(state, member, live) for member in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _with_isr(state: PartitionState, isr: tuple[InSync, ...], live: Mapping[int, LiveNode], *, synced: bool) -> PartitionState:
    """The state with the proposed ISR, reconciled at once, so that a member that died meanwhile does not return with the
    proposal."""
    proposed = replace(state, isr=isr, recovering=state.recovering and len(isr) == 1)
    return replace(reconcile(proposed, live, synced=synced), partition_epoch=state.partition_epoch + 1)


def withdraw(
    image: ClusterImage,
    request: Withdraw,
    live: Mapping[int, LiveNode],
    synced: Synced,
    suspected: Collection[int] = (),
) -> Changed:
    """The states that change. A node withdraws replicas before it registers, too, since it may be elected as soon as it is
    registered.

    Raises Refused with STALE_BROKER_EPOCH for a caller whose next incarnation is registered.
    """
    member = image.members(STORAGE).get(request.node_id)
    if member is not None and member.incarnation > request.incarnation:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"node {request.node_id} is registered with {member.incarnation}")
    caller = InSync(request.node_id, request.incarnation)
    named, certain = (*request.partitions, *request.for_now), {n: node for n, node in live.items() if n not in suspected}
    changed = list(_withdrawn(image, caller, named, set(request.partitions), live, certain, synced))
    return changed + list(_restored(image, caller, set(request.restored).difference(request.partitions), live, synced))


def _withdrawn(
    image: ClusterImage,
    caller: InSync,
    partitions: Iterable[tuple[bytes, int]],
    damaged: Collection[tuple[bytes, int]],
    live: Mapping[int, LiveNode],
    certain: Mapping[int, LiveNode],
    synced: Synced,
) -> Iterable[tuple[bytes, int, PartitionState]]:
    for topic_id, index in dict.fromkeys(partitions):
        state = image.partition(topic_id, index) if topic_id in image.topics_by_id else None
        if state is None or caller in state.withdrawn or all(member.node_id != caller.node_id for member in state.isr):
            continue  # outside the ISR it does no harm: its node sets the log aside and copies it again
        others = tuple(member for member in state.isr if member.node_id != caller.node_id)
        if (topic_id, index) not in damaged and not electable(replace(state, isr=others), certain):
            continue  # no other member that could lead now has its records, and it will serve again
        if not others and caller.node_id in live and live[caller.node_id].incarnation != caller.incarnation:
            continue  # its former incarnation is registered: it withdraws again later
        left = replace(state, isr=others) if others else replace(state, withdrawn=(*state.withdrawn, caller))
        reconciled = reconcile(left, live, synced=synced(topic_id))
        yield topic_id, index, replace(reconciled, partition_epoch=state.partition_epoch + 1)


def _restored(
    image: ClusterImage,
    caller: InSync,
    partitions: Collection[tuple[bytes, int]],
    live: Mapping[int, LiveNode],
    synced: Synced,
) -> Iterable[tuple[bytes, int, PartitionState]]:
    for topic_id, index in sorted(partitions):
        state = image.partition(topic_id, index) if topic_id in image.topics_by_id else None
        if state is not None and caller in state.withdrawn:
            left = replace(state, withdrawn=tuple(each for each in state.withdrawn if each != caller))
            reconciled = reconcile(left, live, synced=synced(topic_id))
            yield topic_id, index, replace(reconciled, partition_epoch=state.partition_epoch + 1)
