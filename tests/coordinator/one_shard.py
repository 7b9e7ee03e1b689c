"""A coordinator of one shard on a log in memory; its stage says what it decides about. Time moves when a test lets it."""

from abc import ABC, abstractmethod
from typing import Any

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import BATCH_BYTES_MAX, Shard
from libs.coordinator.core.tables import Journal
from libs.wire.record_batches.keyed_batches import TransactionalBatch


class CoordinatorRequest:
    """A request, and what became of it."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.answered = False
        self.failure = 0
        self.reply: Any = None

    @property
    def error(self) -> int:
        assert self.answered, "still waits"
        return self.failure or int(self.reply.error_code)

    @property
    def waits(self) -> bool:
        return not self.answered


class OneShard(ABC):
    """`now_ms` is moved by `wait` alone. What `make` reads is there before this is initialized, which begins the first owner."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.log: list[KeyValue] = []
        self.transaction_of: dict[int, TransactionalBatch] = {}
        """The transactions of the log's records, by their places."""
        self.holds = False
        """Appends are not answered while it does."""
        self.stopped = False
        """Timers are."""
        self.batch_bytes_max = BATCH_BYTES_MAX
        self.under_way: Any = None
        """The append that is not answered yet."""
        self.epoch = 0
        self.shard: Shard[Any, Any, Any, CoordinatorRequest]
        self.fail_over()

    @abstractmethod
    def make(self, journal: Journal) -> Any:
        """The machine of the next owner."""

    # -- owners -------------------------------------------------------------------------------------------------------------

    def fail_over(self) -> None:
        """The owner is gone. Another reads the log."""
        self.epoch += 1
        self.shard = Shard(self.make, self.epoch, batch_bytes_max=self.batch_bytes_max)
        self.load()
        self.settle()

    def fence(self, *, stored: bool) -> None:
        """Another owner claims the shard, and this one hears of it. The append in flight is in the log, or it is not."""
        if self.under_way is not None and stored:
            self.store(self.under_way)
        self.under_way, self.holds = None, False
        self.shard.fenced()
        self.answer()
        self.fail_over()

    def lose_sight(self, *, stored: bool, for_ms: int = 0) -> None:
        """An append gets no answer: it is in the log, or it is not. So much time passes until the log is back."""
        planned = self.shard.next_append() if not self.under_way else self.under_way
        self.under_way = None
        if stored and planned is not None:
            self.store(planned)
        self.shard.outcome_unknown()
        self.answer()
        self.now_ms += for_ms
        self.load()
        self.settle()

    def load(self) -> None:
        self.shard.next_claim(0)
        self.shard.claimed(0, len(self.log))
        for place in range(self.shard.position, len(self.log)):
            self.shard.replay_committed([self.log[place]], self.transaction_of.get(place))
        self.shard.loaded(len(self.log), self.now_ms)

    # -- the log ------------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """All that is due, and all that may be appended."""
        for _ in range(10_000):
            while self._append():
                pass
            self.answer()
            if self.stopped or not self.shard.expire(self.now_ms):
                return
        raise AssertionError("it does not come to rest")

    def _append(self) -> bool:
        if self.under_way is None:
            self.under_way = self.shard.next_append()
        if self.under_way is None or self.holds:
            return False
        self.store(self.under_way)
        self.under_way = None
        self.shard.appended()
        return True

    def store(self, planned: Any) -> None:
        if planned.transaction is not None:
            self.transaction_of |= dict.fromkeys(range(len(self.log), len(self.log) + len(planned.records)), planned.transaction)
        self.log += planned.records

    def refuse(self, error: int) -> None:
        self._append()
        self.under_way = None
        self.shard.refused(error)
        self.holds = False
        self.answer()

    # -- callers and time ---------------------------------------------------------------------------------------------------

    def submit_event(self, event: Any, pending: CoordinatorRequest) -> None:
        self.shard.submit(event, self.now_ms, pending)
        self.settle()

    def answer(self) -> None:
        for ticket, error, reply in self.shard.take_answers():
            assert not ticket.answered, "one question, one answer"
            ticket.answered, ticket.failure, ticket.reply = True, error, reply

    def wait(self, ms: int) -> None:
        until = self.now_ms + ms
        while True:
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now_ms = max(self.now_ms, deadline)
            self.settle()
        self.now_ms = until
        self.settle()
