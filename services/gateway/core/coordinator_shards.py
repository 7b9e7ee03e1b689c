"""The shards of a kind of coordinators: what belongs to each, its owner, and the broker id that stands for it. No I/O."""

from typing import Final, NamedTuple

from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, STORAGE, TRANSACTION_COORDINATOR, PartitionState
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.rpc.contracts.coordinators import ASK_GROUPS, ASK_TRANSACTIONS

NO_BROKER = -1


class CoordinatorKind(NamedTuple):
    """A kind of coordinators."""

    name: str
    """As a person reads it."""
    role: str
    topic: str
    """The internal topic whose partitions are the shards."""
    method: str
    """The RPC method for clients' requests."""


GROUPS: Final = CoordinatorKind("group coordinator", GROUP_COORDINATOR, GROUP_TOPIC, ASK_GROUPS)
TRANSACTIONS: Final = CoordinatorKind("transaction coordinator", TRANSACTION_COORDINATOR, TRANSACTION_TOPIC, ASK_TRANSACTIONS)


class CoordinatorShards:
    """The shards of one image."""

    __slots__ = ("_alive", "_owners", "_states", "count")

    def __init__(self, kind: CoordinatorKind, image: ClusterImage, former: "CoordinatorShards | None" = None) -> None:
        """`former` are the shards of the same kind in the image before. What has not changed is taken from there."""
        topic = image.topics.get(kind.topic)
        self.count = topic.partitions if topic is not None else 0
        """The number of shards. 0: the topic does not exist yet."""
        self._alive = image.members(STORAGE)
        self._states = tuple(image.partitions_of(bytes.fromhex(topic.topic_id))) if topic is not None else ()
        self._owners: tuple[Owner | None, ...]
        if former is not None and _same(self._states, former._states):
            self._owners = former._owners
        else:
            self._owners = tuple([Owner.named(state.owner) if state is not None else None for state in self._states])

    def same_owners(self, other: "CoordinatorShards") -> bool:
        return self._owners is other._owners or self._owners == other._owners

    def of(self, key: str) -> int:
        """The shard of that group or transactional id. NO_BROKER (-1) where there are no shards."""
        return shard_of(key, self.count) if self.count else NO_BROKER

    def owner(self, shard: int) -> Owner | None:
        return self._owners[shard] if 0 <= shard < len(self._owners) else None

    def broker(self, shard: int) -> int:
        """The broker id that clients take for the coordinator: the partition's leader if it is alive, otherwise its first live
        replica.

        NO_BROKER if none is alive. Any broker would do, since each gateway reaches the owner.
        """
        state = self._states[shard] if 0 <= shard < len(self._states) else None
        if state is None:
            return NO_BROKER
        candidates = (state.leader, *[replica.node_id for replica in state.replicas])
        return next((node_id for node_id in candidates if node_id in self._alive), NO_BROKER)

    def of_broker(self, broker_id: int) -> list[int]:
        """The shards that this broker id stands for."""
        return [shard for shard in range(self.count) if self.broker(shard) == broker_id]


def _same(ours: tuple[PartitionState | None, ...], theirs: tuple[PartitionState | None, ...]) -> bool:
    return len(ours) == len(theirs) and all(mine is other for mine, other in zip(ours, theirs, strict=True))
