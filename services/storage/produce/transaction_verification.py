"""The first batch of a transaction in a partition waits until its coordinator has said that it belongs there (KIP-890).

Otherwise a batch that comes late would begin a transaction that nobody ends, and readers of committed records would wait for
ever. Clients with Produce 12 or later leave it to the leader to add the partition. For older ones the leader verifies that they
did.

Later batches of that producer for the partition wait behind the first, in order. A marker that comes meanwhile ends the wait: the
answer is about the transaction that it ended. If the coordinator cannot answer, no room is left, or the caller has given up, the
client sends again what waited. No later batch that is on its way overtakes it (KAFKA-14920).
"""

from collections.abc import Callable
from typing import Final

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.transactions import AddPartitions
from libs.runtime.parked_queues import COPIED_BYTES_MAX
from libs.telemetry.tracing.span import SpanContext
from libs.transactions.question import Question
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.transactions.verification_errors import (
    CONCURRENT,
    UNAVAILABLE,
    Participant,
    clients_error,
    not_in_transaction,
    producer,
)
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from services.storage.core.produce.admission import Refusal
from services.storage.partition.partition import Key, Partition
from services.storage.partition.pending_append import AppendCall
from services.storage.produce.returning_batches import ReturningBatches

WAITING_BYTES_MAX: Final = 64 << 20
VERIFICATION: Final = "transaction coordinator"
"""What a batch waits for, in its trace."""

NOT_ENOUGH_REPLICAS: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS)


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """A batch that waits for its turn. `header` is of a batch that was checked before."""

    partition: Partition
    request: AppendCall
    slot: int
    view: memoryview
    header: BatchHeader

    @property
    def leader_epoch(self) -> int:
        """The newest one: where leadership is lost, no batch waits any longer."""
        return self.partition.leader_epoch

    def result(self) -> tuple[memoryview, BatchHeader]:
        """The bytes to append, and their header."""
        return self.view, self.header


@dataclass(eq=False, slots=True)
class _Verification:
    """What one producer sends to one partition, until the coordinator has answered."""

    partition: Partition
    request: AddPartitions
    client: Participant
    batches: list[VerifiedBatch]
    question: Question | None = None


Stage = Callable[[list[VerifiedBatch]], None]
Refuse = Callable[[VerifiedBatch, Refusal], None]


class TransactionVerification:
    """The batches that wait. `stage` takes those of one producer that belong to its transaction, `refuse` one that does not.

    `returning` is told of those that are to come again.
    """

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        stage: Stage,
        refuse: Refuse,
        returning: ReturningBatches,
        context_of: Callable[[AppendCall, int], SpanContext],
    ) -> None:
        """`context_of`: of the wait of a batch."""
        self.coordinators = coordinators
        self._context_of = context_of
        self._stage = stage
        self._refuse = refuse
        self._verifications: dict[tuple[Key, int], _Verification] = {}
        self._granted: tuple[Key, int, int] | None = None
        """Partition, producer id and epoch of the batches that `stage` has at the moment."""
        self._bytes = 0
        self._returning = returning

    def __bool__(self) -> bool:
        """Whether any batch waits."""
        return bool(self._verifications)

    def must_wait(self, partition: Partition, header: BatchHeader) -> bool:
        """Whether batches of this producer wait, and this one must wait behind them."""
        return (partition.key, header.producer_id) in self._verifications

    def is_granted(self, partition: Partition, header: BatchHeader) -> bool:
        """Whether the coordinator has just said that the batch belongs to its transaction."""
        return self._granted == (partition.key, header.producer_id, header.producer_epoch)

    def take(self, partition: Partition, request: AppendCall, slot: int, view: memoryview, header: BatchHeader) -> Refusal | None:
        """Has a transactional batch wait. The refusal of one that cannot."""
        size = len(view)
        if request.transactional_id is None:
            error = not_in_transaction(producer(request.produce_version))
            return Refusal(error, "a transactional batch needs a transactional id")
        key = partition.key, header.producer_id
        if self._bytes + size > WAITING_BYTES_MAX:
            if key not in self._verifications:
                self._remember(partition.key, header)
            return Refusal(NOT_ENOUGH_REPLICAS, "too many batches wait for their transaction coordinators")
        if size <= COPIED_BYTES_MAX:
            view = memoryview(bytearray(view))
        request.written()
        request.waits_for(slot, VERIFICATION)
        batch = VerifiedBatch(partition, request, slot, view, header)
        verification = self._verifications.get(key)
        if verification is not None:
            verification.batches.append(batch)
            self._bytes += size
        else:
            self._begin([batch])
        return None

    def ended(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """A marker ends the producer's transaction up to this epoch in this partition. What waits there for an answer about it is
        refused. Batches of a later epoch wait on: they belong to the next transaction."""
        self._returning.forget(partition.key, producer_id)
        verification = self._verifications.get((partition.key, producer_id))
        if verification is not None:
            error = not_in_transaction(verification.client)
            self._refuse_some(verification, Refusal(error, "the transaction has ended"), lambda each: each <= epoch)

    def drop(self, partition: Partition) -> list[VerifiedBatch]:
        """Takes the batches of a partition out. The caller answers them."""
        batches: list[VerifiedBatch] = []
        for key, verification in list(self._verifications.items()):
            if verification.partition is partition:
                del self._verifications[key]
                batches += self._out(verification)
        return batches

    def drop_all(self) -> list[VerifiedBatch]:
        """Takes all batches out. The caller answers them."""
        dropped = [batch for each in self._verifications.values() for batch in self._out(each)]
        self._verifications.clear()
        return dropped

    def close(self) -> None:
        self.drop_all()

    def _begin(self, batches: list[VerifiedBatch]) -> None:
        """Asks about the first of these batches of one producer for one partition."""
        first = batches[0]
        partition, request, header = first.partition, first.request, first.header
        assert request.transactional_id is not None
        client = producer(request.produce_version)
        asked = AddPartitions(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            not client.leaves_adding,
            ((partition.topic, partition.key[1]),),
            partition.log.producers.coordinator_epoch(header.producer_id),
        )
        verification = _Verification(partition, asked, client, batches)
        self._verifications[partition.key, header.producer_id] = verification
        self._bytes += sum(len(batch.view) for batch in batches)
        context = self._context_of(request, first.slot)
        request.waits_for(first.slot, VERIFICATION, context)
        verification.question = Question(self.coordinators, asked, lambda error: self._answered(verification, error), context)
        verification.question.ask()

    # -- answers --------------------------------------------------------------------------------------------------------------

    def _answered(self, verification: _Verification, error: int) -> None:
        asked, first = verification.request, verification.batches[0]
        key = verification.partition.key, asked.producer_id
        if error:
            if error in UNAVAILABLE or error == CONCURRENT:
                self._remember(key[0], first.header)
            message = f"the transaction coordinator answers {ErrorCode(error).name}" if error in [*ErrorCode] else None
            refusal = Refusal(int(clients_error(error, verification.client)), message)
            self._refuse_some(verification, refusal, lambda epoch: epoch == asked.producer_epoch)
        else:
            del self._verifications[key]
            self._returning.forget(*key)
            if first.request.cancelled:
                self._remember(key[0], first.header)  # `stage` leaves it out
            self._granted = (*key, asked.producer_epoch)
            try:
                self._stage(self._out(verification))
            finally:
                self._granted = None

    def _refuse_some(self, verification: _Verification, refusal: Refusal, is_refused: Callable[[int], bool]) -> None:
        """Refuses the batches with such epochs. The others go on to wait, for an answer of their own."""
        del self._verifications[verification.partition.key, verification.request.producer_id]
        batches = self._out(verification)
        others = [batch for batch in batches if not is_refused(batch.header.producer_epoch)]
        if others:
            self._begin(others)
        for batch in batches:
            if is_refused(batch.header.producer_epoch):
                self._refuse(batch, refusal)

    def _remember(self, partition: Key, first: BatchHeader) -> None:
        """Notes the first of a producer's refused batches."""
        self._returning.remember(partition, first.producer_id, first.producer_epoch, first.base_sequence)

    def _out(self, verification: _Verification) -> list[VerifiedBatch]:
        if verification.question is not None:
            verification.question.cancel()
        batches, verification.batches = verification.batches, []
        self._bytes -= sum(len(batch.view) for batch in batches)
        return batches
