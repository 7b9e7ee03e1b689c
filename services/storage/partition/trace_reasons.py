"""Which requests have a trace at their leader: those that a gateway decided on, slow and failed ones.

A gateway decides by the whole time of a request, so half of its threshold counts here. It keeps each request that failed, and a
leader keeps its part of that: both derive the same ids.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from libs.rpc.server.call import Call
from libs.runtime.tracing.call_contexts import derived_from
from libs.telemetry.tracing.ids import random_span_id
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import SpanContext
from libs.telemetry.tracing.span_tree import SpanTree
from libs.wire.api_keys import ApiKey
from libs.wire.client_errors import CLIENT_CAUSED
from libs.wire.errors import ErrorCode

EXPECTED_ERRORS: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)
"""Errors of the usual course, while leaders move: a gateway whose image is old asks again. They are no reason for a trace."""


def first_unexpected(errors: Iterable[int]) -> int:
    """The error that says most of a request about several partitions: the first that is no usual one, or else the first. 0: none
    failed."""
    failed = [error for error in errors if error]
    return next((error for error in failed if error not in EXPECTED_ERRORS), failed[0] if failed else 0)


class BegunTrace(NamedTuple):
    """The leader's part of a trace: an empty tree, whose root is to have the context `own`."""

    own: SpanContext
    tree: SpanTree
    reason: Reason | None
    """What stands out of the request."""


class TraceReasons:
    """Those of one API."""

    def __init__(self, recorder: SpanRecorder, api_key: ApiKey) -> None:
        self.slow_s = recorder.rules.slow_s(api_key) / 2
        """A request that takes longer is kept."""
        self._recorder = recorder

    def begin(
        self, call: Call, told: SpanContext | None, took_s: float, error: int, now: float, part: int = 0
    ) -> BegunTrace | None:
        """The trace of a request that is answered now. None: it has none. `told`: the span that asked for it, if somebody decided
        on a trace. `part`: of an RPC request that several clients share."""
        recorder = self._recorder
        reason = self._of(took_s, error, now, told=told is not None)
        if (told is None and reason is None) or not recorder.admits(now, in_advance=reason is None):
            return None
        caller = told or derived_from(call, recorder.process, part)
        own = SpanContext(caller.trace_id, random_span_id(recorder.random), caller.sampled)
        return BegunTrace(own, recorder.tree(own, caller.span_id), reason)

    def _of(self, took_s: float, error: int, now: float, *, told: bool) -> Reason | None:
        """The reason of a request that is answered now. None: it is neither slow nor failed. `told`: it has a trace anyway."""
        if took_s > self.slow_s:
            return Reason.SLOW
        if error in EXPECTED_ERRORS:
            return None
        if told or self._recorder.traces_failure(now, client_caused=error in CLIENT_CAUSED):
            return Reason.FAILED
        return None
