"""Traces of client requests at this gateway: which have one, and their spans, made when the answer leaves.

A client decides by the `traceparent` of its first record, this gateway by the fraction. A compressed batch's is known once a
leader that opens the batch has answered. Nobody decides on a slow or failed request in advance: its ids derive from the first RPC
request that was made for it, so that the process that was asked has the same.
"""

from typing import Final

from libs.runtime.record_contexts import RecordContexts
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import RpcRequest, derived_context, random_context, random_span_id
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import IN_ADVANCE, Reason
from libs.telemetry.tracing.span import SpanContext
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.client_errors import CLIENT_CAUSED
from libs.wire.errors import error_name
from services.gateway.core.request_spans import AnsweredRequest, AskedProcess, add_spans
from services.gateway.exchange.exchange import AnsweredTrace, Asked, Buffer, Exchange, RequestTrace

WAIT_FOR_MEMBERS: Final = frozenset(int(api.key) for api in APIS.values() if api.parks)
"""JoinGroup and SyncGroup wait for other members, as they are asked to. Their coordinator knows what was slow."""
MAY_WAIT: Final = WAIT_FOR_MEMBERS | {int(ApiKey.FETCH)}
CONNECTION_ENDED: Final = "connection ended"
"""The error of a request that could not be answered."""
HEARTBEATS: Final = frozenset(int(api.key) for api in APIS.values() if api.is_heartbeat)


class RequestTraces:
    """Those of one process."""

    def __init__(self, recorder: SpanRecorder) -> None:
        self.sampler = recorder.sampler
        self.slow_s = recorder.rules.fastest_slow_s
        """Whatever takes less has no trace for that."""
        self._recorder = recorder
        self._contexts = RecordContexts(recorder)

    def sample(self, exchange: Exchange) -> None:
        """The fraction has drawn this request. Beyond the cap it has no trace, so that others are not told of half a one.
        Heartbeats have a trace if they are slow or fail, and not by chance."""
        if exchange.trace is not None or exchange.api_key in HEARTBEATS:
            return
        if self._recorder.admits(exchange.received_at, in_advance=True):
            exchange.trace = RequestTrace(random_context(self._recorder.random), None, Reason.FRACTION)

    def look(self, exchange: Exchange, records: Buffer) -> None:
        """Takes the context of the client that wrote the first record, if it is sampled."""
        if (context := self._sampled_by_client(records, exchange.received_at)) is not None:
            self._take(exchange, context)

    def wants(self, records: Buffer, now: float) -> bool:
        """Whether a Produce that has not begun is to have a trace, by the fraction or by its client. If not, it is drawn and
        looked at by this."""
        if self.sampler.draws_next:
            return True
        if self._sampled_by_client(records, now) is not None:
            return True
        self.sampler.draws()
        return False

    def _sampled_by_client(self, records: Buffer, now: float) -> SpanContext | None:
        context = self._contexts.of_batch(records, now)
        return context if context is not None and context.sampled and self._recorder.rules.heeds_clients else None

    def found_by_leader(self, exchange: Exchange, asked: Asked, context: SpanContext) -> SpanContext | None:
        """Takes the context of a client that a leader found in a compressed batch, which it opened. Returns that of the span
        that asked the leader. None: the request has another trace already."""
        if exchange.trace is not None and exchange.trace.context.trace_id != context.trace_id:
            return None
        if exchange.trace is None:
            self._take(exchange, context)
        return SpanContext(context.trace_id, self._derived(exchange, asked).span_id)

    def _take(self, exchange: Exchange, context: SpanContext) -> None:
        own = SpanContext(context.trace_id, random_span_id(self._recorder.random))
        exchange.trace = RequestTrace(own, context.span_id, Reason.CLIENT)

    def context_to_send(self, trace: RequestTrace) -> SpanContext:
        """The context of the span for an RPC request."""
        return SpanContext(trace.context.trace_id, random_span_id(self._recorder.random))

    @GUARDED
    def answered(self, exchange: Exchange, now: float) -> None:
        """Keeps what is known of a request whose answer is written now, if it has a trace. Call it for those that are sampled,
        took over `slow_s`, or failed."""
        # That it was slow or failed says more than who decided on it.
        reason = self._reason(exchange, now) or (exchange.trace.reason if exchange.trace is not None else None)
        if reason is not None:
            error = error_name(exchange.error) if exchange.error else None
            exchange.answered_trace = self._answered(exchange, now, reason, error)

    @GUARDED
    def sent(self, exchange: Exchange, now: float) -> None:
        """Makes the spans of a request whose answer the client has now. Call it for those with an `answered_trace`, and for those
        that took over `slow_s`."""
        answered = exchange.answered_trace
        if answered is None and self._is_slow(exchange, now):  # only the client was slow
            answered = self._answered(exchange, exchange.left_at, Reason.SLOW, None)
        if answered is not None:
            self._record(answered, now, exchange.disk_wait_s)

    def abandoned(self, exchange: Exchange, now: float) -> None:
        """Makes the spans of a request whose connection ended before it was answered. What waits for records or for other members
        is not slow: nobody has told how long it waited as asked."""
        self._abandoned(exchange, now)
        exchange.asked = ()

    @GUARDED
    def _abandoned(self, exchange: Exchange, now: float) -> None:
        trace = exchange.trace
        if trace is not None:
            reason: Reason | None = trace.reason
        else:
            reason = self._reason(exchange, now) if exchange.api_key not in MAY_WAIT else None
        if reason is not None:
            error = error_name(exchange.error) if exchange.error else CONNECTION_ENDED
            if (answered := self._answered(exchange, now, reason, error)) is not None:
                self._record(answered, now)

    def _reason(self, exchange: Exchange, now: float) -> Reason | None:
        """Why a request has a trace, whoever decided on it in advance. None: it was neither slow nor failed."""
        if self._is_slow(exchange, now):
            return Reason.SLOW
        if not exchange.error:
            return None
        traced = self._recorder.traces_failure(now, client_caused=exchange.error in CLIENT_CAUSED)
        return Reason.FAILED if traced else None

    def _is_slow(self, exchange: Exchange, now: float) -> bool:
        took_s = now - exchange.received_at - exchange.waited_as_asked_s
        return took_s > self._recorder.rules.slow_s(exchange.api_key) and exchange.api_key not in WAIT_FOR_MEMBERS

    def _answered(self, exchange: Exchange, now: float, reason: Reason, error: str | None) -> AnsweredTrace | None:
        """None: its spans would be beyond the cap."""
        recorder, trace = self._recorder, exchange.trace
        if not recorder.admits(now, in_advance=reason in IN_ADVANCE):
            return None
        asked = [self._asked(exchange, each) for each in exchange.asked]
        if trace is not None:
            root, parent_id = trace.context, trace.parent_id
        elif asked:
            first = asked[0].context
            root, parent_id = SpanContext(first.trace_id, random_span_id(recorder.random), first.sampled), None
        else:
            root, parent_id = random_context(recorder.random, sampled=False), None
        exchange.trace_id, use = root.trace_id, exchange.quota_use
        request = AnsweredRequest(
            api_key=exchange.api_key,
            api_version=exchange.api_version,
            client_id=exchange.client_id,
            peer=exchange.connection.peer,
            reason=reason,
            received_at=exchange.received_at,
            began_at=exchange.began_at,
            authorized=exchange.authorized,
            parked_at=exchange.sent_at,
            answered_at=now,
            throttled=use is not None and use.postponed,
            asked=asked,
            subject=next((each.subject_of(exchange) for each in exchange.asked), None),
            error=error,
        )
        return AnsweredTrace(root, parent_id, request)

    def _record(self, answered: AnsweredTrace, now: float, disk_wait_s: float = 0.0) -> None:
        tree = self._recorder.tree(answered.root, answered.parent_id)
        add_spans(answered.request, now, tree, answered.root.trace_id, disk_wait_s)
        self._recorder.record(tree.spans)

    def _asked(self, exchange: Exchange, asked: Asked) -> AskedProcess:
        context = asked.context_of(exchange) or self._derived(exchange, asked)
        return AskedProcess(context, asked.method, asked.server, asked.sent_at, asked.answered_at)

    def _derived(self, exchange: Exchange, asked: Asked) -> SpanContext:
        return derived_context(RpcRequest(self._recorder.process, asked.server, asked.request_id, asked.part_of(exchange)))
