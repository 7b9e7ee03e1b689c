"""What the committed log of the coordinators says of each transactional id, and the rules of its changes."""

from collections import Counter

from libs.wire.record_batches.records import iter_records
from services.transaction_coordinator.core import record_codec
from services.transaction_coordinator.core.transaction import Producer, Transaction, TransactionChanged
from tests.simulation.replication.simulator import Simulator
from tests.simulation.transactions.record_log import StoredBatch

AT_REST = ("Empty", "CompleteCommit", "CompleteAbort")
FOLLOWS = {
    "Empty": ("Empty", "Ongoing", "PrepareAbort"),
    "Ongoing": ("Ongoing", "PrepareCommit", "PrepareAbort"),
    "PrepareCommit": ("CompleteCommit",),
    "PrepareAbort": ("CompleteAbort",),
    "CompleteCommit": ("Empty", "Ongoing", "PrepareAbort"),
    "CompleteAbort": ("Empty", "Ongoing", "PrepareAbort"),
}


class TransactionLog:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.newest: dict[str, Transaction] = {}
        self.by_producer_id: dict[int, str] = {}
        self.producers: set[tuple[str, Producer]] = set()
        """Each that was ever logged."""
        self.additions: set[tuple[str, int, int, int]] = set()
        """Transactional id, producer id, epoch and data partition of each addition that was ever logged."""
        self.decisions: Counter[tuple[int, int, bool]] = Counter()
        """The number of decisions of a producer id, by the epoch of their markers and the outcome."""
        self.initialized: dict[int, int] = {}
        """The newest epoch of a producer id that InitProducerId gave."""

    def committed(self, batch: StoredBatch) -> list[tuple[Transaction | None, Transaction]]:
        """Takes a committed batch. Each change: before, after."""
        changes = []
        for record in iter_records(batch.content):
            assert record.key is not None
            assert record.value is not None
            logged = record_codec.decode(bytes(record.key), bytes(record.value))
            assert isinstance(logged, TransactionChanged)
            after = logged.transaction
            before = self.newest.get(after.transactional_id)
            self._check(before, after)
            self._note(before, after)
            changes.append((before, after))
        return changes

    def is_open(self, producer_id: int, epoch: int, partition: tuple[str, int]) -> bool:
        """Whether a partition belongs to the transaction that the producer of this epoch has now."""
        newest = self._of(producer_id)
        if newest is None or newest.state.value in AT_REST or partition not in newest.partitions:
            return False
        return newest.producer.producer_id == producer_id and epoch <= newest.producer.epoch

    def wants_marker(self, producer_id: int, epoch: int, partition: tuple[str, int], *, commits: bool) -> bool:
        newest = self._of(producer_id)
        wanted = "PrepareCommit" if commits else "PrepareAbort"
        return (
            newest is not None
            and newest.state.value == wanted
            and newest.producer == (producer_id, epoch)
            and partition in newest.partitions
        )

    def _of(self, producer_id: int) -> Transaction | None:
        return self.newest.get(self.by_producer_id.get(producer_id, ""))

    def _note(self, before: Transaction | None, after: Transaction) -> None:
        producer_id, epoch = after.producer
        self.newest[after.transactional_id] = after
        self.by_producer_id[producer_id] = after.transactional_id
        self.producers.add((after.transactional_id, after.producer))
        if after.state.value == "Ongoing":
            self.additions.update((after.transactional_id, producer_id, epoch, index) for _, index in after.partitions)
        if after.state.value == "Empty":
            self.initialized[producer_id] = epoch
        if after.state.value.startswith("Prepare"):
            self.decisions[producer_id, epoch, after.state.value == "PrepareCommit"] += 1
        self._simulator.log_event("  log: %s is %s, %s, %s", *_shown(after))

    def _check(self, before: Transaction | None, after: Transaction) -> None:
        if before is None:
            return
        story = f"{after.transactional_id} is {before.state.value} {before.producer}, then {after.state.value} {after.producer}"
        if after.state.value not in FOLLOWS[before.state.value]:
            self._simulator.violation(f"10: {story}")
        if after.producer.producer_id == before.producer.producer_id and after.producer.epoch < before.producer.epoch:
            self._simulator.violation(f"epochs fall: {story}")
        grows = {"Ongoing": before.partitions <= after.partitions, "PrepareCommit": before.partitions == after.partitions}
        if before.state.value == "Ongoing" and not grows.get(after.state.value, before.partitions == after.partitions):
            self._simulator.violation(f"partitions are lost: {story}, {set(before.partitions)}, then {set(after.partitions)}")


def _shown(transaction: Transaction) -> tuple[str, str, str, list[int]]:
    producer = f"{transaction.producer.producer_id}/{transaction.producer.epoch}"
    return transaction.transactional_id, transaction.state.value, producer, sorted(index for _, index in transaction.partitions)
