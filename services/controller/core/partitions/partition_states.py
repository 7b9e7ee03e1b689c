"""The states of partitions and replicas, and the steps between them, as tables.

Nobody stores these states. They follow from the metadata and the live nodes. The tables say which steps exist, and every write is
checked against them.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from libs.cluster.records import PartitionState
from services.controller.core.model.replica_health import LiveNode, has_directory
from services.controller.core.reassignment.reassignment import reassigned_by_the_table


class PartitionStatus(Enum):
    NON_EXISTENT = "NonExistent"
    NEW = "New"
    """Written, but its topic's record is not written yet, so nobody sees it."""
    ONLINE = "Online"
    OFFLINE = "Offline"
    """It has no leader."""


class PartitionStep(Enum):
    CREATED = "its replicas are assigned"
    COMMITTED = "its topic's record is written"
    SWEPT = "its creation was not finished"
    LED_ANEW = "another replica leads, or another incarnation of it"
    ISR_CHANGED = "the ISR changes"
    REPLICAS_CHANGED = "replicas are added, removed or found in a directory"
    OWNER_CHANGED = "another coordinator owns it as a shard"
    NOBODY_LEFT = "no in-sync replica lives"
    ELECTED = "an in-sync replica is back"
    ELECTED_AT_A_LOSS = "the most complete log is taken"
    DELETED = "its topic is deleted"


_NON_EXISTENT, _NEW = PartitionStatus.NON_EXISTENT, PartitionStatus.NEW
_ONLINE, _OFFLINE = PartitionStatus.ONLINE, PartitionStatus.OFFLINE

PARTITION_TRANSITIONS: Final[dict[tuple[PartitionStatus, PartitionStep], PartitionStatus]] = {
    (_NON_EXISTENT, PartitionStep.CREATED): _NEW,
    (_NEW, PartitionStep.COMMITTED): _ONLINE,
    (_NEW, PartitionStep.SWEPT): _NON_EXISTENT,
    (_ONLINE, PartitionStep.LED_ANEW): _ONLINE,
    (_ONLINE, PartitionStep.ISR_CHANGED): _ONLINE,
    (_ONLINE, PartitionStep.REPLICAS_CHANGED): _ONLINE,
    (_ONLINE, PartitionStep.OWNER_CHANGED): _ONLINE,
    (_ONLINE, PartitionStep.NOBODY_LEFT): _OFFLINE,
    (_ONLINE, PartitionStep.DELETED): _NON_EXISTENT,
    (_OFFLINE, PartitionStep.ELECTED): _ONLINE,
    (_OFFLINE, PartitionStep.ELECTED_AT_A_LOSS): _ONLINE,
    (_OFFLINE, PartitionStep.ISR_CHANGED): _OFFLINE,
    (_OFFLINE, PartitionStep.REPLICAS_CHANGED): _OFFLINE,
    (_OFFLINE, PartitionStep.OWNER_CHANGED): _OFFLINE,
    (_OFFLINE, PartitionStep.DELETED): _NON_EXISTENT,
}


class ReplicaStatus(Enum):
    NON_EXISTENT = "NonExistent"
    NEW = "New"
    """It copies records, and a reassignment waits for it."""
    ONLINE = "Online"
    OFFLINE = "Offline"
    """Its node is dead, or lives without the log."""


class ReplicaStep(Enum):
    ADDED = "a reassignment adds it"
    CREATED = "its partition is created"
    CAUGHT_UP = "it is in sync, and the reassignment done"
    NODE_GONE = "its node is gone"
    LOG_GONE = "its directory is gone, or its log is damaged"
    BACK = "its node is back with its log"
    COPYING_AGAIN = "its node is back, and the reassignment still waits for it"
    REMOVED = "a reassignment removes it, or its topic is deleted"


_NO_REPLICA, _COPYING = ReplicaStatus.NON_EXISTENT, ReplicaStatus.NEW
_THERE, _AWAY = ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE

REPLICA_TRANSITIONS: Final[dict[tuple[ReplicaStatus, ReplicaStep], ReplicaStatus]] = {
    (_NO_REPLICA, ReplicaStep.CREATED): _THERE,
    (_NO_REPLICA, ReplicaStep.ADDED): _COPYING,
    (_COPYING, ReplicaStep.CAUGHT_UP): _THERE,
    (_COPYING, ReplicaStep.NODE_GONE): _AWAY,
    (_COPYING, ReplicaStep.LOG_GONE): _AWAY,
    (_COPYING, ReplicaStep.REMOVED): _NO_REPLICA,
    (_THERE, ReplicaStep.NODE_GONE): _AWAY,
    (_THERE, ReplicaStep.LOG_GONE): _AWAY,
    (_THERE, ReplicaStep.REMOVED): _NO_REPLICA,
    (_AWAY, ReplicaStep.BACK): _THERE,
    (_AWAY, ReplicaStep.COPYING_AGAIN): _COPYING,
    (_AWAY, ReplicaStep.REMOVED): _NO_REPLICA,
}


def partition_status(state: PartitionState | None, *, committed: bool = True) -> PartitionStatus:
    """The status of a partition. `committed`: its topic's record exists."""
    if state is None:
        return PartitionStatus.NON_EXISTENT
    if not committed:
        return PartitionStatus.NEW
    return PartitionStatus.ONLINE if state.leader >= 0 else PartitionStatus.OFFLINE


def step_between(before: PartitionState, after: PartitionState) -> PartitionStep:
    """The step between two states of an existing partition. If several apply, the most important one."""
    if after.leader < 0 <= before.leader:
        return PartitionStep.NOBODY_LEFT
    if before.leader < 0 <= after.leader:
        return PartitionStep.ELECTED_AT_A_LOSS if after.recovering else PartitionStep.ELECTED
    if after.leader_epoch != before.leader_epoch and after.leader >= 0:
        return PartitionStep.LED_ANEW
    if after.owner != before.owner:
        return PartitionStep.OWNER_CHANGED
    changed_isr = after.isr != before.isr or after.withdrawn != before.withdrawn
    return PartitionStep.ISR_CHANGED if changed_isr else PartitionStep.REPLICAS_CHANGED


def follows_the_table(before: PartitionState, after: PartitionState) -> bool:
    """Whether `after` may be written over `before`."""
    step = step_between(before, after)
    allowed = PARTITION_TRANSITIONS.get((partition_status(before), step)) is partition_status(after)
    rises = after.partition_epoch > before.partition_epoch and after.leader_epoch >= before.leader_epoch
    owners = after.owner_epoch - before.owner_epoch
    doubted = after.leader < 0 and after.leader_epoch > before.leader_epoch  # a lost branch may have given out epochs
    owned = owners == int(after.owner != before.owner) or (doubted and owners > 0)
    return allowed and rises and owned and bool(after.isr) and reassigned_by_the_table(before, after)


def replica_status(state: PartitionState, node_id: int, live: Mapping[int, LiveNode]) -> ReplicaStatus:
    if all(replica.node_id != node_id for replica in state.replicas):
        return ReplicaStatus.NON_EXISTENT
    node = live.get(node_id)
    if node is None or not has_directory(state, node_id, node) or (node_id, node.incarnation) in state.withdrawn:
        return ReplicaStatus.OFFLINE
    in_sync = any(member.node_id == node_id for member in state.isr)
    return ReplicaStatus.NEW if node_id in state.adding and not in_sync else ReplicaStatus.ONLINE
