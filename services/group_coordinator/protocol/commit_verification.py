"""Offsets that wait until their transaction's coordinator has said that they belong to it (KIP-890).

Offsets that come late would begin a transaction that nobody ends, and readers that require stable offsets would wait for ever.
Clients with TxnOffsetCommit 5 or later leave it to this process to add them. For older ones it verifies that they did. A marker
that comes meanwhile ends the wait: the answer is about the transaction that it ended.
"""

from collections.abc import Callable
from typing import Final

from libs.cluster.topic_names import GROUP_TOPIC
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.transactions import AddPartitions
from libs.telemetry.tracing.span import SpanContext
from libs.transactions.question import Question
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.transactions.verification_errors import Participant, clients_error, not_in_transaction, offsets_committer
from libs.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

WAITING_MAX: Final = 10_000
"""Most requests that wait. Each has at most some kilobytes, and clients retry what is refused."""

OnError = Callable[[int], None]
"""Called once: 0, or the error for the client."""


@dataclass(eq=False, slots=True)
class _Waiting:
    key: tuple[int, int]
    producer_epoch: int
    client: Participant
    on_error: OnError
    question: Question | None = None


class CommitVerification:
    """The requests that wait. `coordinators` follows each image."""

    def __init__(self, coordinators: TransactionCoordinators) -> None:
        self.coordinators = coordinators
        self._waiting: dict[tuple[int, int], list[_Waiting]] = {}
        """By shard and producer id."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def verify(
        self,
        shard: int,
        request: TxnOffsetCommitRequest,
        version: int,
        on_error: OnError,
        context: SpanContext | None = None,
    ) -> None:
        """Asks whether the offsets of that shard belong to the producer's transaction. `context`: the span that asks, if it is
        traced."""
        client = offsets_committer(version)
        if self._count >= WAITING_MAX:
            on_error(client.retried_error)
            return
        asked = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            not client.leaves_adding,
            ((GROUP_TOPIC, shard),),
        )
        waiting = _Waiting((shard, request.producer_id), request.producer_epoch, client, on_error)
        self._waiting.setdefault(waiting.key, []).append(waiting)
        self._count += 1
        waiting.question = Question(
            self.coordinators,
            asked,
            lambda error: self._answer(waiting, clients_error(error, client) if error else 0),
            context,
        )
        waiting.question.ask()

    def ended(self, shard: int, producer_id: int, epoch: int) -> None:
        """A marker ends the producer's transaction up to this epoch in this shard."""
        for waiting in list(self._waiting.get((shard, producer_id), ())):
            if waiting.producer_epoch <= epoch:
                self._answer(waiting, not_in_transaction(waiting.client))

    def close(self) -> None:
        """Forgets all that wait. Their callers' connections end."""
        for waiting in self._waiting.values():
            for each in waiting:
                if each.question is not None:
                    each.question.cancel()
        self._waiting.clear()
        self._count = 0

    def _answer(self, waiting: _Waiting, error: int) -> None:
        others = self._waiting[waiting.key]
        others.remove(waiting)
        self._count -= 1
        if not others:
            del self._waiting[waiting.key]
        if waiting.question is not None:
            waiting.question.cancel()
        waiting.on_error(error)
