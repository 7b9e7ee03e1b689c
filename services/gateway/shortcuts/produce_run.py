"""Runs: consecutive Produces of one read that repeat each other, from their frames to their answers.

The first request of a run passes the gate, like any other. One that differs from it in records and correlation id alone is
decided on like it: same connection and read, so same principal, client id, ACLs and routes. It joins, and costs neither an
exchange, nor a batch, nor a place in the session. All travel in one Append RPC, as batches of one read do (ADR 5), and their
answers are written as one.

Only the plain success takes this way. In every other case the run is split: each request has its own exchange and batch then,
with the same times and the same order, and what follows is what would have followed without a run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from libs.rpc.messages.envelope import EMPTY
from services.gateway.appends.batch import Stored
from services.gateway.exchange.exchange import Exchange

if TYPE_CHECKING:
    from services.gateway.shortcuts.produce_shortcut import RepeatedProduce

REQUESTS_MAX: Final = 128
"""The requests of a run. A longer sequence becomes several runs of one RPC."""
BYTES_MAX: Final = 1 << 20
"""The bytes of a run's frames, if it has more than one."""


class ProduceRun:
    """The requests that have joined the one of a batch. Dropped by that batch once they are answered."""

    __slots__ = ("_batches", "_correlation_ids", "_exchanges", "_first", "_orders", "_sizes", "answer_bytes", "records")

    def __init__(self, first: "RepeatedProduce") -> None:
        self._first: RepeatedProduce | None = first
        self.answer_bytes = 0
        self._batches: list[RepeatedProduce] | None = None  # None: not split
        self._exchanges: list[Exchange] | None = None
        self._correlation_ids: list[int] = []
        self._sizes: list[int] = []
        self._orders: list[int] = []
        self.records: list[memoryview] = []

    @property
    def requests(self) -> int:
        """Those that have joined, and the first."""
        return 1 + len(self._correlation_ids)

    def add(self, correlation_id: int, size: int, records: memoryview, order: int) -> None:
        self._correlation_ids.append(correlation_id)
        self._sizes.append(size)
        self._orders.append(order)
        self.records.append(records)

    def split(self) -> "Sequence[RepeatedProduce]":
        """The batches behind the first, each with its own request."""
        if self._batches is None:
            first, self._first = self._first, None
            assert first is not None, "a run that was answered as a whole has no batches"
            exchanges = self._made(first.exchange)
            self._batches = [
                first.behind(exchange, records, order)
                for exchange, records, order in zip(exchanges, self.records, self._orders, strict=True)
            ]
            first.exchange.run = None
            first.exchange.connection.part(first.exchange, exchanges)
        return self._batches

    def apart(self, exchange: Exchange) -> Sequence[Exchange]:
        if not exchange.answered:
            return (exchange, *[batch.exchange for batch in self.split()])
        if self._exchanges is None:
            self._exchanges = self._made(exchange)
        for made in self._exchanges:
            made.left_at, made.disk_wait_s = exchange.left_at, exchange.disk_wait_s
        exchange.size -= sum(made.size for made in self._exchanges if exchange.requests > 1)
        exchange.requests = 1
        return (exchange, *self._exchanges)

    def stored(self, results: Sequence[Stored]) -> None:
        first = self._first
        assert first is not None, "a run is answered once"
        first.answer_all(self._correlation_ids, results)
        self._first = None
        self.records.clear()  # they keep the receive buffer

    def _made(self, first: Exchange) -> list[Exchange]:
        made = []
        for correlation_id, size in zip(self._correlation_ids, self._sizes, strict=True):
            exchange = Exchange(first.connection, EMPTY, first.api_key, first.received_at, first.pipelined)
            exchange.frame, exchange.size = None, size
            exchange.api_version, exchange.client_id, exchange.correlation_id = first.api_version, first.client_id, correlation_id
            exchange.began_at, exchange.sent_at = first.began_at, first.sent_at
            exchange.quota_use = first.quota_use
            if first.answered:
                exchange.answered, exchange.answered_at = True, first.answered_at
            else:
                exchange.asked = first.asked
            made.append(exchange)
        return made
