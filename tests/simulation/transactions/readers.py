"""A reader of committed records for each partition. It reads from any node that believes that it leads."""

from libs.wire.record_batches.records import iter_records
from services.storage.partition.partition import Key, Partition
from tests.simulation.transactions.labels import BatchName, name_in
from tests.simulation.transactions.record_log import RecordLog, StoredBatch
from tests.simulation.transactions.storage_node import StorageNode
from tests.simulation.transactions.world import World

EVERY_S = 0.06


class Reader:
    def __init__(self, world: World, key: Key) -> None:
        self._world, self._key = world, key
        self.position = 0
        self.seen = 0
        """The number of batches that it has seen."""

    def begin(self) -> None:
        self._world.later(EVERY_S * (0.5 + self._world.random.random()), self._look)

    def _look(self) -> None:
        leaders = [node for node in self._world.nodes.values() if node.alive and self._key in node.partitions.by_key]
        if leaders:
            self.read_from(self._world.random.choice(leaders))
        self.begin()

    def read_from(self, node: StorageNode) -> None:
        partition = node.partitions.by_key[self._key]
        self._world.checks.stable(node, partition)
        names = self._committed(partition, self.position, partition.last_stable_offset)
        self._world.checks.read(self._key, names, self.seen)
        self.seen += len(names)
        self.position = max(self.position, partition.last_stable_offset)

    def _committed(self, partition: Partition, start: int, end: int) -> list[BatchName]:
        """As Kafka's consumers do, with the aborted transactions that a fetch names."""
        log = partition.log
        assert isinstance(log, RecordLog)
        aborted = sorted((each.first_offset, each.producer_id) for each in log.aborted_between(start, end))
        skipped: set[int] = set()
        names = []
        for batch in log.between(start, end):
            while aborted and aborted[0][0] <= batch.header.base_offset:
                skipped.add(aborted.pop(0)[1])
            if batch.marker is not None:
                if batch.marker.aborts:
                    skipped.discard(batch.header.producer_id)
            elif batch.header.producer_id not in skipped:
                names.append(_name_of(batch))
        return names


def _name_of(batch: StoredBatch) -> BatchName:
    (record,) = iter_records(batch.content)
    assert record.value is not None
    return name_in(bytes(record.value))
