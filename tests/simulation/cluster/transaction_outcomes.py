"""The outcomes of transactions, read from the committed logs while they grow (10). `transaction_ledger.py` judges them."""

from collections.abc import Iterator, Sequence

from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from libs.wire.record_batches.batches import BatchHeader, iter_batches
from libs.wire.record_batches.markers import read_marker
from libs.wire.record_batches.records import iter_records
from services.storage.partition.partition import Key, Partition
from services.transaction_coordinator.core import record_codec
from services.transaction_coordinator.core.transaction import Transaction, TransactionChanged
from tests.simulation.cluster.invariants import Invariants, content, hosted_by
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.transaction_ledger import Ended, Ledger
from tests.simulation.cluster.world import World


class Outcomes:
    """Call `look` now and then. `topics` are those that transactions write to."""

    def __init__(self, world: World, storage: Sequence[StorageProcess], invariants: Invariants, topics: Sequence[str]) -> None:
        self._world, self._storage, self._invariants, self._topics = world, storage, invariants, topics
        self._ledger = Ledger(self._violation)
        self._read: dict[str, int] = {}
        """Up to where each log was read."""

    def transactions_of(self, shard: int, shards: int) -> list[Transaction]:
        return [one for name, one in self._ledger.transactions.items() if shard_of(name, shards) == shard]

    def look(self) -> None:
        """10: now."""
        replicas = self._replicas()
        for name, (_, found) in replicas.items():
            if name.startswith(TRANSACTION_TOPIC):
                self._read_decisions(name, _furthest(found))
        for name, (_, found) in replicas.items():
            if not name.startswith(TRANSACTION_TOPIC):
                self._read_markers(name, _furthest(found))

        def markers_at(name: str, producer_id: int) -> Sequence[Ended] | None:
            key, found = replicas.get(name, ((b"", 0), []))
            state = self._invariants.states.get(key)
            leads = [one for one in found if one.leading and state is not None and one.leader_epoch == state.leader_epoch]
            if not leads:
                return None
            batches = _batches(leads[0], self._read.get(name, 0), leads[0].log_end_offset)
            ends = (_marker(header, batch) for header, batch in batches if header.producer_id == producer_id)
            return [end for end in ends if end is not None]

        self._ledger.check(self._world.seconds, markers_at)

    def unfinished(self) -> str:
        """What is not at rest yet."""
        self.look()
        waits = list(self._ledger.unfinished())
        for name, (_, found) in self._replicas().items():
            for one in found:
                if one.last_stable_offset != one.high_watermark:
                    waits.append(f"{name} is stable up to {one.last_stable_offset} of {one.high_watermark}")
        return "; ".join(waits)

    # --- logs

    def _replicas(self) -> dict[str, tuple[Key, list[Partition]]]:
        """All running replicas, by the name of the partition."""
        found: dict[str, tuple[Key, list[Partition]]] = {}
        for process in self._storage:
            for key, partition, _ in hosted_by(process):
                if partition.topic in self._topics or partition.topic == TRANSACTION_TOPIC:
                    found.setdefault(f"{partition.topic}-{key[1]}", (key, []))[1].append(partition)
        return found

    def _read_decisions(self, name: str, partition: Partition) -> None:
        for header, batch in self._committed(name, partition):
            if header.base_offset > self._read.get(name, 0):
                self._violation(f"{name}: nobody looked at what was before {header.base_offset}")
            for record in iter_records(batch):
                change = record_codec.decode(record.key or b"", record.value)
                if isinstance(change, TransactionChanged):
                    self._ledger.changed(change.transaction, self._world.seconds)
            self._read[name] = header.last_offset + 1

    def _read_markers(self, name: str, partition: Partition) -> None:
        for header, batch in self._committed(name, partition):
            end = _marker(header, batch)
            if end is not None:
                self._ledger.marked(name, end, self._world.seconds)
            elif header.is_transactional:
                self._ledger.written(name, header.producer_id, self._world.seconds)
            self._read[name] = header.last_offset + 1

    def _committed(self, name: str, partition: Partition) -> Iterator[tuple[BatchHeader, bytes]]:
        return _batches(partition, self._read.get(name, 0), partition.high_watermark)

    def _violation(self, what: str) -> None:
        self._world.violation(f"10: {what}")


def _furthest(replicas: Sequence[Partition]) -> Partition:
    return max(replicas, key=lambda one: one.high_watermark)


def _marker(header: BatchHeader, batch: bytes) -> Ended | None:
    marker = read_marker(batch) if header.is_control else None
    return Ended(header.producer_id, header.producer_epoch, marker.aborts) if marker is not None else None


def _batches(partition: Partition, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of a log from `start` on."""
    start = max(start, partition.log_start_offset)
    for batch in iter_batches(content(partition, start, end)) if start < end else ():
        if start <= batch.header.last_offset < end:
            yield batch.header, bytes(batch.view)
