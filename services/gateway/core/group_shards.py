"""Which shard of `__consumer_offsets` a group belongs to, who owns it, and which broker id stands for it. No I/O."""

from libs.cluster.image import ClusterImage
from libs.cluster.owners import Owner
from libs.cluster.records import STORAGE, PartitionState
from libs.cluster.topic_names import GROUP_TOPIC
from libs.runtime.shards.placement import shard_of

NOBODY = -1


class Shards:
    """Of one image."""

    __slots__ = ("_alive", "_owners", "_states", "count")

    def __init__(self, image: ClusterImage, former: "Shards | None" = None) -> None:
        """Shares with `former`, that of the image before, what is still the same."""
        topic = image.topics.get(GROUP_TOPIC)
        self.count = topic.partitions if topic is not None else 0
        """0: there is no such topic yet."""
        self._alive = image.members(STORAGE)
        self._states = tuple(image.partitions_of(bytes.fromhex(topic.topic_id))) if topic is not None else ()
        self._owners: tuple[Owner | None, ...]
        if former is not None and _same(self._states, former._states):
            self._owners = former._owners
        else:
            self._owners = tuple([Owner.named(state.owner) if state is not None else None for state in self._states])

    def same_owners(self, other: "Shards") -> bool:
        return self._owners is other._owners or self._owners == other._owners

    def of(self, group_id: str) -> int:
        """NOBODY (-1) where there are no shards."""
        return shard_of(group_id, self.count) if self.count else NOBODY

    def owner(self, shard: int) -> Owner | None:
        return self._owners[shard] if 0 <= shard < len(self._owners) else None

    def broker(self, shard: int) -> int:
        """The broker id that clients take for the coordinator: who leads the partition, if that lives; else the first of its
        replicas that lives; NOBODY where none does. Any would do, since any gateway reaches the owner."""
        state = self._states[shard] if 0 <= shard < len(self._states) else None
        if state is None:
            return NOBODY
        candidates = (state.leader, *[replica.node_id for replica in state.replicas])
        return next((node_id for node_id in candidates if node_id in self._alive), NOBODY)

    def behind(self, broker_id: int) -> list[int]:
        """The shards for which that broker id stands."""
        return [shard for shard in range(self.count) if self.broker(shard) == broker_id]


def _same(ours: tuple[PartitionState | None, ...], theirs: tuple[PartitionState | None, ...]) -> bool:
    return len(ours) == len(theirs) and all(mine is other for mine, other in zip(ours, theirs, strict=True))
