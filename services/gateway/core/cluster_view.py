"""The cluster as clients see it: live brokers, and for each partition a leader that can be reached, or why not. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, PartitionState
from libs.wire.errors import ErrorCode

TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: what Kafka answers without an authorizer."""

CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""

NO_OPERATIONS_ASKED: Final = -2147483648


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class PartitionView:
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


_STILL_CREATING = PartitionView(ErrorCode.LEADER_NOT_AVAILABLE, -1, -1, (), (), ())


class ClusterView:
    """One image, as one client sees it. `endpoint` gives a broker id's host and port for this client, None if it has none."""

    def __init__(self, image: ClusterImage, endpoint: Callable[[int], tuple[str, int] | None]) -> None:
        self.image = image
        self._endpoint = endpoint
        self._alive: Mapping[int, Member] = image.members(STORAGE)
        self.brokers = sorted(self._brokers(self._alive), key=lambda broker: broker.node_id)
        self._reachable = frozenset(broker.node_id for broker in self.brokers)

    def fenced_brokers(self) -> list[Broker]:
        """Nodes that have been seen once and are not alive, which keep their ports."""
        dead = sorted(node_id for node_id in self.image.nodes if node_id not in self._alive)
        found = []
        for node_id in dead:
            address = self._endpoint(node_id)
            if address is not None:
                found.append(Broker(node_id, *address, self.image.nodes[node_id].rack or None, fenced=True))
        return found

    def controller_id(self, addressed: int) -> int:
        """Kafka names any live broker, since each forwards to the controller. The one that was asked is as good as any."""
        if addressed in self._reachable:
            return addressed
        return self.brokers[0].node_id if self.brokers else -1

    def partition(self, state: PartitionState | None) -> PartitionView:
        if state is None:
            return _STILL_CREATING
        replicas = tuple([replica.node_id for replica in state.replicas])
        isr = tuple([member.node_id for member in state.isr])
        reachable = self._reachable
        offline = () if reachable.issuperset(replicas) else tuple([node for node in replicas if node not in reachable])
        if state.leader in reachable:
            return PartitionView(ErrorCode.NONE, state.leader, state.leader_epoch, replicas, isr, offline)
        # A live leader without an address is a listener that no gateway serves: another error, since waiting will not help.
        error = ErrorCode.LISTENER_NOT_FOUND if state.leader in self._alive else ErrorCode.LEADER_NOT_AVAILABLE
        return PartitionView(error, -1, state.leader_epoch, replicas, isr, offline)

    def _brokers(self, alive: Mapping[int, Member]) -> list[Broker]:
        found = []
        for node_id, member in alive.items():
            address = self._endpoint(node_id)
            if address is not None:
                found.append(Broker(node_id, *address, member.rack or None))
        return found
