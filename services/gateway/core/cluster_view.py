"""The cluster as clients see it: its brokers, and the reachable leader of each partition, or the reason why there is none.
No I/O."""

from collections.abc import Callable, Mapping
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, Member, PartitionState
from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode

TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: Kafka's answer without an authorizer."""

CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""


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
    """One image as one client sees it. `endpoint` gives a broker id's host and port for this client; None: it has none."""

    def __init__(self, image: ClusterImage, endpoint: Callable[[int], tuple[str, int] | None]) -> None:
        self.image = image
        self._endpoint = endpoint
        self._alive: Mapping[int, Member] = image.members(STORAGE)
        self.brokers = sorted(self._brokers(self._alive), key=lambda broker: broker.node_id)
        self._reachable = frozenset(broker.node_id for broker in self.brokers)

    def fenced_brokers(self) -> list[Broker]:
        """The nodes that have registered once and are not alive. Their ports stay open."""
        dead = sorted(node_id for node_id in self.image.nodes if node_id not in self._alive)
        brokers = []
        for node_id in dead:
            address = self._endpoint(node_id)
            if address is not None:
                host, port = address
                brokers.append(Broker(node_id, host, port, self.image.nodes[node_id].rack or None, fenced=True))
        return brokers

    def named_brokers(self, is_listed: Callable[[int], bool]) -> list[Broker]:
        """The brokers of Metadata, which are all that a client may connect to. They are those alive, and the fenced ones that are
        still listed. While none is alive, they are all fenced ones, so that clients find some of them again."""
        fenced = self.fenced_brokers()
        if not self.brokers:
            return fenced
        listed = [broker for broker in fenced if is_listed(broker.node_id)]
        return sorted(self.brokers + listed, key=lambda broker: broker.node_id)

    def controller_id(self, addressed: int) -> int:
        """The broker id that clients take for the controller: the addressed one if it is alive, otherwise the first.

        Kafka names any live broker, since each forwards to the controller.
        """
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
        # No gateway serves the listener of a live leader without an address. Waiting does not help, so the error is another one.
        error = ErrorCode.LISTENER_NOT_FOUND if state.leader in self._alive else ErrorCode.LEADER_NOT_AVAILABLE
        return PartitionView(error, -1, state.leader_epoch, replicas, isr, offline)

    def _brokers(self, alive: Mapping[int, Member]) -> list[Broker]:
        brokers = []
        for node_id, member in alive.items():
            address = self._endpoint(node_id)
            if address is not None:
                host, port = address
                brokers.append(Broker(node_id, host, port, member.rack or None))
        return brokers
