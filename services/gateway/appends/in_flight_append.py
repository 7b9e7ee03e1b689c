"""One Append RPC on its way, and what its traces are made of."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import APPEND
from libs.telemetry.tracing.ids import process_name
from libs.telemetry.tracing.span import SpanContext
from services.gateway.appends.batch import Batch, apart
from services.gateway.core.request_spans import Subject, partition_subject
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_traces import RequestTraces
from services.gateway.peers.storage_nodes import StorageNode

NO_CONTEXTS: Final[Mapping[Exchange, SpanContext]] = MappingProxyType({})

OnOutcome = Callable[["InFlightAppend", Response | Exception], None]


class InFlightAppend:
    """One Append RPC that has no answer yet. It is the RPC client's completion callback, through which leader changes find it.

    A batch that was taken back leaves None in `batches`. Another RPC carries it by then, and this answer no longer counts for it.

    With `in_runs`, `batches` has only the first of each run until `split`, which whoever looks at single batches calls before.
    """

    __slots__ = (
        "_contexts",
        "_exchanges",
        "_joined",
        "_on_outcome",
        "_sent",
        "answered_at",
        "batches",
        "completed",
        "in_runs",
        "node",
        "request_id",
        "sent_at",
    )

    def __init__(
        self,
        node: StorageNode,
        batches: Sequence[Batch],
        on_outcome: OnOutcome,
        *,
        exchanges: Sequence[Exchange],
        joined: bool,
        sent_at: float,
        contexts: Mapping[Exchange, SpanContext],
        in_runs: bool,
    ) -> None:
        """`exchanges`: of the batches. `joined`: each batch is another request's. `contexts`: of requests that are traced.
        `in_runs`: some of the batches are the first of a run, and none is of a request that is traced."""
        self.node = node
        self.in_runs = in_runs
        self.batches: list[Batch | None] = list(batches)
        self.completed = False
        self.request_id = 0
        self.sent_at = sent_at
        self.answered_at = 0.0
        self._sent = batches
        self._exchanges = exchanges
        self._joined = joined
        self._contexts = contexts
        self._on_outcome = on_outcome

    def __call__(self, outcome: Response | Exception) -> None:
        self.completed = True
        self._on_outcome(self, outcome)

    def whole_runs(self, now: float) -> list[Batch]:
        """The first batches of all its runs, if each may be answered as a whole once those before it are. Else none."""
        before: Exchange | None = None
        for batch in self._sent:
            if not batch.may_end_whole(now, before):
                return []
            before = batch.request.exchange
        return list(self._sent)

    def split(self) -> None:
        """Has `batches` name each batch, with a request of its own."""
        if self.in_runs:
            self.in_runs = False
            parted = apart(self._sent)
            self.batches = list(parted)
            self._sent = parted
            self._exchanges = [batch.request.exchange for batch in parted]

    # --- what its traces are made of ----------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        return APPEND

    @property
    def server(self) -> str:
        return process_name(STORAGE, self.node.node_id, self.node.incarnation)

    def part_of(self, exchange: Exchange) -> int:
        return self._place_of(exchange) if self._joined else 0

    def context_of(self, exchange: Exchange) -> SpanContext | None:
        return self._contexts.get(exchange)

    def found(self, slot: int, context: SpanContext, traces: RequestTraces) -> None:
        """The leader has found a client's context in the batch."""
        exchange = self._exchanges[slot]
        if exchange not in self._contexts and (own := traces.found_by_leader(exchange, self, context)) is not None:
            self._contexts = {**self._contexts, exchange: own}

    def subject_of(self, exchange: Exchange) -> Subject:
        batch = self._sent[self._place_of(exchange)]
        return partition_subject(batch.topic.name, batch.partition)

    def _place_of(self, exchange: Exchange) -> int:
        if exchange not in self._exchanges:
            self.split()  # its connection has ended, and so parted all that it asked for
        return self._exchanges.index(exchange)
