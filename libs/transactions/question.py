"""A question to a transaction coordinator, asked again for a while where it cannot answer now."""

import asyncio
from collections.abc import Callable
from typing import Final

from libs.rpc.contracts.transactions import AddPartitions
from libs.telemetry.tracing.span import SpanContext
from libs.transactions.transaction_coordinators import TransactionCoordinators
from libs.transactions.verification_errors import CONCURRENT, UNAVAILABLE

RETRY_S: Final = 0.02
UNAVAILABLE_S_MAX: Final = 3.0
"""How long a failover of the coordinator is hidden from clients."""
CONCURRENT_S_MAX: Final = 0.1
"""Kafka's add.partitions.to.txn.retry.backoff.max.ms. Longer waits are the client's."""


class Question:
    """Whether a partition belongs to a producer's transaction. `on_error` is called once with 0 or the coordinator's error,
    perhaps before `ask` returns, and never after `cancel`."""

    __slots__ = ("_begun", "_cancelled", "_context", "_coordinators", "_loop", "_on_error", "_retry", "request")

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        request: AddPartitions,
        on_error: Callable[[int], None],
        context: SpanContext | None = None,
    ) -> None:
        """`context`: the span that asks, if it is traced."""
        self.request = request
        self._context = context
        self._coordinators = coordinators
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._retry: asyncio.TimerHandle | None = None
        self._cancelled = False

    def ask(self) -> None:
        self._retry = None
        error = self._coordinators.ask(self.request, self._answered, self._context)
        if error:
            self._answered(error)

    def cancel(self) -> None:
        self._cancelled = True
        if self._retry is not None:
            self._retry.cancel()

    def _answered(self, error: int) -> None:
        if self._cancelled:
            return
        waited_s = self._loop.time() - self._begun
        if waited_s < (UNAVAILABLE_S_MAX if error in UNAVAILABLE else CONCURRENT_S_MAX if error == CONCURRENT else 0):
            self._retry = self._loop.call_later(RETRY_S, self.ask)
        else:
            self._on_error(error)
