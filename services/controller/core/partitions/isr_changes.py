"""Whether a leader's proposal of another ISR is accepted (AlterPartition), and replicas that their nodes withdraw.

The checks and their order are KRaft's (ReplicationControlManager.alterPartition), with incarnations for broker epochs. A
proposal is compared with the leader epoch and partition epoch that its leader acted on; one that the state holds already was
applied before, and its answer lost.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, PartitionState
from libs.rpc.contracts.controller import AlteredPartition, AlterPartitions, NewIsr, Withdraw
from libs.wire.errors import ErrorCode
from services.controller.core.brokers import settle, shrinks_to
from services.controller.core.elections import electable
from services.controller.core.refusal import Refused
from services.controller.core.standing import LiveNode, may_join

Changed = list[tuple[bytes, int, PartitionState]]

Synced = Callable[[bytes], bool]
"""Whether the topic of that id acknowledges only what is on disk."""


@dataclass(frozen=True, slots=True)
class IsrDecision:
    """Write `changed`, then answer `results`, which are in the order of the request."""

    changed: Changed
    results: tuple[AlteredPartition, ...]


def require_registered(image: ClusterImage, node_id: int, incarnation: int) -> None:
    """Raises Refused with STALE_BROKER_EPOCH unless that life of the node is the registered one."""
    member = image.members(STORAGE).get(node_id)
    if member is None or member.incarnation != incarnation:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is not registered with incarnation {incarnation}")


def alter_partitions(
    image: ClusterImage,
    request: AlterPartitions,
    live: Mapping[int, LiveNode],
    synced: Synced,
    in_doubt: Collection[tuple[bytes, int]] = (),
    doubted: Collection[int] = (),
) -> IsrDecision:
    """Raises Refused with STALE_BROKER_EPOCH for a caller of another life.

    `in_doubt`: partitions of which an earlier write may still be applied. Whoever hears that the state stands as it was counts on
    no proposal any more; so where one that was accepted before is refused now, the state takes a step that leaves no room for it.
    `doubted`: nodes that may have ended. Left alone in an ISR, they would be waited for while others have all that they have.
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
        if not error and shrinks_to(state, isr, doubted):
            error = ErrorCode.INELIGIBLE_REPLICA
        hardened = proposal.durable and state.lax and proposal.partition_epoch == state.partition_epoch
        if not error and hardened and not synced(proposal.topic_id):
            hardened = False
            if set(isr) == set(state.isr):
                error = ErrorCode.INELIGIBLE_REPLICA  # not yet: some node need not sync what it acknowledges
        if error == ErrorCode.INELIGIBLE_REPLICA and key in in_doubt:
            state = changed[key] = replace(state, partition_epoch=state.partition_epoch + 1)
        if not error and (hardened or set(isr) != set(state.isr)):
            before = replace(state, lax=False) if hardened else state
            state = changed[key] = _with_isr(before, isr, live, synced=synced(proposal.topic_id))
            if state.leader != request.node_id:
                error = ErrorCode.NEW_LEADER_ELECTED  # it is applied all the same
        results.append(answered(error, state))
    return IsrDecision([(*key, state) for key, state in changed.items()], tuple(results))


def answered(error: ErrorCode, state: PartitionState) -> AlteredPartition:
    isr = tuple((member.node_id, member.incarnation) for member in state.isr)
    return AlteredPartition(error, state.leader, state.leader_epoch, state.partition_epoch, isr)


def _refusal(
    state: PartitionState, proposal: NewIsr, isr: tuple[InSync, ...], caller: InSync, live: Mapping[int, LiveNode]
) -> ErrorCode:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the caller saw what we did not: we are the one that is behind
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
    """One step on: `settle` looks at it at once, so that a member that died meanwhile does not come back with the proposal."""
    proposed = replace(state, isr=isr, recovering=state.recovering and len(isr) == 1)
    return replace(settle(proposed, live, synced=synced), partition_epoch=state.partition_epoch + 1)


def withdraw(
    image: ClusterImage,
    request: Withdraw,
    live: Mapping[int, LiveNode],
    synced: Synced,
    doubted: Collection[int] = (),
) -> Changed:
    """The states that change. A node tells before it registers, too: as soon as it has, it may be elected and others dropped from
    the ISR. Raises Refused with STALE_BROKER_EPOCH for a caller whose next life is registered."""
    member = image.members(STORAGE).get(request.node_id)
    if member is not None and member.incarnation > request.incarnation:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"node {request.node_id} is registered with {member.incarnation}")
    caller = InSync(request.node_id, request.incarnation)
    asked, certain = (*request.partitions, *request.for_now), {n: node for n, node in live.items() if n not in doubted}
    changed = list(_withdrawn(image, caller, asked, set(request.partitions), live, certain, synced))
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
            continue  # outside the ISR it harms nobody: its node sets the log aside and copies it anew
        others = tuple(member for member in state.isr if member.node_id != caller.node_id)
        if (topic_id, index) not in damaged and not electable(replace(state, isr=others), certain):
            continue  # it has what nobody else has who could serve now, and will serve again
        if not others and caller.node_id in live and live[caller.node_id].incarnation != caller.incarnation:
            continue  # while its former life is registered: it tells again
        left = replace(state, isr=others) if others else replace(state, withdrawn=(*state.withdrawn, caller))
        settled = settle(left, live, synced=synced(topic_id))
        yield topic_id, index, replace(settled, partition_epoch=state.partition_epoch + 1)


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
            settled = settle(left, live, synced=synced(topic_id))
            yield topic_id, index, replace(settled, partition_epoch=state.partition_epoch + 1)
