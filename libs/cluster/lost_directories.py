"""The advice for a partition that has no leader, since an in-sync replica lost its log directory.

Storage nodes and the controller log it.
"""

from collections.abc import Collection, Mapping

from libs.cluster.records import InSync, Member, PartitionState, Replica

ANOTHER_IN_SYNC = "bring the directory back, or another in-sync replica: start its node, or do what that node's log says"
ELECT = (
    "bring the directory back; to go on without its records, start a node with another replica, "
    "then kafka-leader-election --election-type unclean"
)
RECREATE = (
    "bring the directory back; if it is lost, so are its records: "
    "copy what other partitions of the topic hold, delete the topic and create it again"
)


def way_out(state: PartitionState, lost: Collection[int], members: Mapping[int, Member]) -> str:
    """`lost`: nodes that live without the directory of their in-sync replica. `members`: the storage nodes that are registered.

    An unclean election loses records. So it is named only if no other in-sync replica may come back, and another replica is left.
    """
    if any(_may_return(state, member, lost, members) for member in state.isr):
        return ANOTHER_IN_SYNC
    if any(replica.node_id not in lost and _may_hold(replica, members) for replica in state.replicas):
        return ELECT
    return RECREATE


def _may_return(state: PartitionState, member: InSync, lost: Collection[int], members: Mapping[int, Member]) -> bool:
    """Whether an ISR member is away, or cannot read its log for now. All else that it has is there already."""
    node = members.get(member.node_id)
    return member.node_id not in lost and (node is None or InSync(member.node_id, node.incarnation) in state.withdrawn)


def _may_hold(replica: Replica, members: Mapping[int, Member]) -> bool:
    node = members.get(replica.node_id)
    return node is None or not replica.log_dir_id or replica.log_dir_id in node.log_dirs
