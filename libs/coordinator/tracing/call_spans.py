"""The spans of a client's request at its coordinator, made when it is answered, and the contexts of its appends.

    OffsetCommit                gateway: the client's request
      groups.ask                gateway: the RPC request, whose context travels, or is derived where nobody decided on a trace
        OffsetCommit decided    this process, from its arrival to its answer
          append                this process; its context travels to the partition's leader

Decisions of several requests share an append, and a slow one may have no trace of its own: `append` then links to its leader's.

Ids of both spans here are derived from the RPC request, so nothing is kept for a request that waits. JoinGroup and SyncGroup wait
for other members as they are asked to, so they are never slow.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from libs.rpc.server.call import Call
from libs.runtime.tracing.call_contexts import derived_from
from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import RpcRequest, SentRequest, derived_context
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.rpc_context import unpack_context
from libs.telemetry.tracing.sampling import IN_ADVANCE, Reason
from libs.telemetry.tracing.span import AttributeValue, Link, SpanContext, SpanKind
from libs.wire.api_keys import ApiKey
from libs.wire.apis import Api
from libs.wire.client_errors import CLIENT_CAUSED
from libs.wire.errors import ErrorCode, error_name

_DECIDED, _APPEND = 1, 2
"""The parts of an RPC request from which this process derives ids of its own. 0 is its caller's."""

EXPECTED_ERRORS: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
)
"""Errors of the protocols' usual course, after which a client or its gateway asks again. They are no reason for a trace."""


def _nobody() -> None:
    return None


class AppendTimes(NamedTuple):
    """An append from its sending to its answer, in loop time. Decisions of several requests share one."""

    sent_at: float
    answered_at: float
    context: SpanContext | None = None
    """The first that was sent with it: that of one of those requests. None: nobody decided on a trace."""
    asked: Callable[[], SentRequest | None] = _nobody
    """The RPC request that carried it. Call it before the next append."""


class CallSpans:
    """The spans of one process's calls. `now` is the loop's time."""

    def __init__(self, recorder: SpanRecorder, now: Callable[[], float]) -> None:
        self._recorder = recorder
        self._now = now
        self._slow_s = recorder.rules.fastest_slow_s / 2
        """A call that takes less is not slow. A gateway adds its own time, so half of its threshold counts here."""

    def of_decision(self, call: Call) -> SpanContext | None:
        """The call's own span. None: nobody asked for a trace of it."""
        return self._sampled(call, _DECIDED)

    def of_question(self, call: Call) -> SpanContext:
        """The call's own span, for the process that it asks. It is not sampled where nobody asked for a trace of it: then the
        process that is asked has a part in it only if that is slow or fails."""
        asked = self.of_decision(call)
        if asked is not None:
            return asked
        return SpanContext(self._derived(call, 0).trace_id, self._derived(call, _DECIDED).span_id, sampled=False)

    def of_append(self, call: Call) -> SpanContext | None:
        """The context for the append that the call will wait for. None: nobody asked for a trace of it."""
        return self._sampled(call, _APPEND)

    def _sampled(self, call: Call, part: int) -> SpanContext | None:
        if call.trace is None:
            return None
        caller = unpack_context(call.trace)
        return SpanContext(caller.trace_id, self._derived(call, part).span_id) if caller is not None else None

    def answered(
        self,
        call: Call,
        api: Api,
        shard: int,
        error: int,
        append: AppendTimes | None,
        undecided: SpanContext | None = None,
    ) -> bool:
        """Makes the spans of a call that is answered now, if it has any. `append`: what its answer waited for. `undecided`: the
        span that made the call, if the caller named it though nobody decided on a trace. None: it is derived.

        True: it has a trace because it failed. Its gateway cannot know that unless it is told.
        """
        now = self._now()
        if call.trace is None and now - call.received_at <= self._slow_s and error in EXPECTED_ERRORS:
            return False
        with GUARDED:
            return self._make(call, api, shard, error, append, now, undecided)
        return False

    def _make(
        self,
        call: Call,
        api: Api,
        shard: int,
        error: int,
        append: AppendTimes | None,
        now: float,
        undecided: SpanContext | None,
    ) -> bool:
        recorder = self._recorder
        caller, reason = unpack_context(call.trace), Reason.FRACTION
        if caller is None:
            if error not in EXPECTED_ERRORS and recorder.traces_failure(now, client_caused=error in CLIENT_CAUSED):
                reason = Reason.FAILED
            elif api.parks or now - call.received_at <= recorder.rules.slow_s(api.key) / 2:
                return False
            else:
                reason = Reason.SLOW
            caller = undecided or self._derived(call, 0)
        if not recorder.admits(now, in_advance=reason in IN_ADVANCE):
            return False
        context = SpanContext(caller.trace_id, self._derived(call, _DECIDED).span_id, caller.sampled)
        tree = recorder.tree(context, caller.span_id)
        attributes: dict[str, AttributeValue] = {
            conventions.RPC_SYSTEM: conventions.PENSTOCK_RPC,
            conventions.RPC_METHOD: call.method,
            conventions.SHARD: shard,
            conventions.REASON: reason,
        }
        failed = error_name(error) if error else None
        tree.root(f"{api.name} decided", call.received_at, now, attributes, kind=SpanKind.SERVER, error=failed)
        if append is not None:
            sent_at = max(append.sent_at, call.received_at)  # it may have joined an append that was on its way
            append_id = self._derived(call, _APPEND).span_id
            leaders = self._leaders(append)
            links = [Link(leaders)] if leaders is not None and leaders.span_id != append_id else []
            tree.child("append", sent_at, append.answered_at, kind=SpanKind.CLIENT, span_id=append_id, links=links)
        recorder.record(tree.spans)
        return reason is Reason.FAILED

    def _leaders(self, append: AppendTimes) -> SpanContext | None:
        """The span below which the partition's leader has its own. None: the leader has made none, for all that is known here."""
        if append.context is not None:
            return append.context
        if append.answered_at - append.sent_at <= self._recorder.rules.slow_s(ApiKey.PRODUCE) / 2:
            return None
        asked = append.asked()
        return derived_context(RpcRequest(self._recorder.process, *asked)) if asked is not None else None

    def _derived(self, call: Call, part: int) -> SpanContext:
        return derived_from(call, self._recorder.process, part)
