"""Assignment of new partitions to nodes: placed by the controller, or given by the client and checked."""

from collections.abc import Sequence

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, InSync, PartitionState, Replica
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused
from services.controller.core.partitions.partition_reconciler import NO_LEADER
from services.controller.core.placement.replica_placement import Load, Node, choose_directory, place
from services.controller.core.reassignment.decommissioning import leaving


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request."""

    partitions_per_request: int = 10_000


class Assigner:
    """The first states of new partitions in one image. It counts its own placements, so that the topics of a request share nodes
    evenly."""

    __slots__ = ("_image", "_leaving", "_limits", "_load", "_members", "_nodes", "_start")

    def __init__(self, image: ClusterImage, limits: Limits, start: int) -> None:
        self._image = image
        self._limits = limits
        self._start = start
        self._members = image.members(STORAGE)
        self._leaving = leaving(image)
        self._nodes = {
            node_id: Node(node_id, member.rack, member.host_id, member.log_dirs) for node_id, member in self._members.items()
        }
        self._load: Load | None = None

    def placed(self, partitions: int, factor: int) -> tuple[PartitionState, ...]:
        registered = len(self._nodes.keys() | self._image.nodes.keys())
        if factor > registered:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
                f"reached because only {registered} broker(s) are registered.",
            )
        if not self._nodes:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced.",
            )
        if factor > len(self._nodes):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): only {len(self._nodes)} broker(s) are alive.",
            )
        staying = [node for node in self._nodes.values() if node.node_id not in self._leaving]
        if factor > len(staying):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {factor} time(s): only {len(staying)} broker(s) are alive that are not being "
                "decommissioned.",
            )
        chosen = place(partitions, factor, staying, self._known_load(), self._start)
        self._start += partitions
        return tuple(self._first_state(replicas) for replicas in chosen)

    def assigned(self, assignments: Sequence[tuple[int, ...]], replication_factor: int | None) -> tuple[PartitionState, ...]:
        """States of partitions that the client assigned. `replication_factor` None: that of the first assignment."""
        for index, replicas in enumerate(assignments):
            if replication_factor is None:
                replication_factor = len(replicas)
            self._check_assignment(index, replicas, replication_factor)
        return tuple(self._first_state(replicas) for replicas in assignments)

    def _check_assignment(self, index: int, replicas: tuple[int, ...], factor: int) -> None:
        def refused(why: str) -> Refused:
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)

        if not replicas:
            raise refused("The manual partition assignment includes an empty replica list.")
        for node_id in replicas:
            if node_id not in self._nodes and node_id not in self._image.nodes:
                raise refused(f"The manual partition assignment includes broker {node_id}, but no such broker is registered.")
            if node_id in self._leaving:
                raise refused(f"The manual partition assignment includes broker {node_id}, which is being decommissioned.")
            if replicas.count(node_id) > 1:
                raise refused(f"The manual partition assignment includes the broker {node_id} more than once.")
        if len(replicas) != factor:
            raise refused(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s)."
            )
        if not any(node_id in self._nodes for node_id in replicas):
            raise refused(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
                "shutdown."
            )

    def _first_state(self, replicas: Sequence[int]) -> PartitionState:
        """The first state of a partition. Dead nodes get their replica, and join the ISR once they have caught up."""
        alive = [node_id for node_id in replicas if node_id in self._nodes]
        isr = tuple(InSync(node_id, self._members[node_id].incarnation) for node_id in alive)
        leader = isr[0] if isr else InSync(NO_LEADER, 0)
        return PartitionState(
            replicas=tuple(Replica(node_id, self._directory(node_id)) for node_id in replicas),
            leader=leader.node_id,
            leader_incarnation=leader.incarnation,
            leader_epoch=0,
            partition_epoch=0,
            isr=isr,
        )

    def _directory(self, node_id: int) -> str:
        node = self._nodes.get(node_id)
        return choose_directory(node, self._known_load()) if node is not None else ""

    def _known_load(self) -> Load:
        if self._load is None:
            self._load = Load.of(state for _, _, state in self._image.states())
        return self._load
