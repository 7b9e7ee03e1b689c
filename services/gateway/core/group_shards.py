"""The shards of `__consumer_offsets`: the groups in each, its owner, and the broker id that stands for it. No I/O."""

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.shard_hashing import shard_of

NO_BROKER = -1


class GroupShards:
    """The shards of one image."""

    __slots__ = ("_alive", "_owners", "_states", "count")

    def __init__(self, image: ClusterImage, former: "GroupShards | None" = None) -> None:
        """`former` are the shards of the image before. What has not changed is taken from there."""
        topic = image.topics.get(GROUP_TOPIC)
        self.count = topic.partitions if topic is not None else 0
        """The number of shards. 0: the topic does not exist yet."""
        self._alive = image.members(STORAGE)
        self._states = tuple(image.partitions_of(bytes.fromhex(topic.topic_id))) if topic is not None else ()
        self._owners: tuple[Owner | None, ...]
        if former is not None and _same(self._states, former._states):
            self._owners = former._owners
        else:
            self._owners = tuple([Owner.named(state.owner) if state is not None else None for state in self._states])

    def same_owners(self, other: "GroupShards") -> bool:
        return self._owners is other._owners or self._owners == other._owners

    def of(self, group_id: str) -> int:
        """The shard of that group. NO_BROKER (-1) where there are no shards."""
        return shard_of(group_id, self.count) if self.count else NO_BROKER

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
