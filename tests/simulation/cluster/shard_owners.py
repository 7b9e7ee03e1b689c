"""The owners of an internal topic's shards, as the store has them."""

from collections.abc import Callable, Sequence

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.records import PartitionState, Topic
from libs.cluster.store import Compare, Operation, Put
from services.storage.partition.partition import Key
from tests.simulation.cluster.world import World


class ShardOwners:
    """Follows each transaction of the store. `on_moved`: a shard has another owner, or none."""

    def __init__(self, world: World, topic: str, on_moved: Callable[[int, PartitionState], None]) -> None:
        self._world, self._topic, self._on_moved = world, topic, on_moved
        self.states: dict[int, PartitionState] = {}
        """By shard."""
        self.topic_id = b""
        world.links.applied.append(self.applied)

    def applied(self, _host: str, _compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
        """5: as each transaction lands."""
        for operation in operations:
            if isinstance(operation, Put) and operation.key.startswith(keys.PARTITIONS):
                key = keys.partition_of(operation.key)
                if self._is_ours(key):
                    self._owned(key[1], decode(PartitionState, operation.value))

    def _is_ours(self, key: Key) -> bool:
        if not self.topic_id:
            topics = [decode(Topic, item.value) for item in self._world.keyspace.range(keys.TOPICS).items]
            self.topic_id = next((bytes.fromhex(topic.topic_id) for topic in topics if topic.name == self._topic), b"")
        return key[0] == self.topic_id

    def _owned(self, shard: int, state: PartitionState) -> None:
        before = self.states.get(shard)
        self.states[shard] = state
        if before is None or before.owner == state.owner:
            return
        self._world.log_event(f"  {self._topic}-{shard}: {state.owner or 'nobody'} owns it, epoch {state.owner_epoch}")
        if state.owner_epoch <= before.owner_epoch:
            what = f"{before.owner} in epoch {before.owner_epoch}, then {state.owner} in {state.owner_epoch}"
            self._world.violation(f"5: {self._topic}-{shard} is owned by {what}")
        self._on_moved(shard, state)
